package main

// A reader: credit, answers, and the columns that do not travel.

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	pb "bowstring.test/client/wire"
)

const creditBytes = 1 << 20

// Message is a row as it is read.
type Message struct {
	Row
	Partition uint32 `json:"partition"`
	Offset    uint64 `json:"offset"`
	Arrived   int64  `json:"arrived"`
	Due       int64  `json:"due"`
	Expires   int64  `json:"expires"`
	Group     string `json:"producer_group"`
}

// read gives every message from the beginning of a topic to where it ends now.
func read(address, topic, where string, each func(Message)) error {
	connection, err := connect(address)
	if err != nil {
		return err
	}
	defer connection.Close()
	described, err := connection.topic(topic)
	if err != nil {
		return err
	}
	open := &pb.FetchOpen{Topic: topic, Where: where}
	for number, offsets := range described.Ranges {
		if offsets.First < offsets.Next {
			open.Partitions = append(open.Partitions, &pb.FetchFrom{Partition: uint32(number), End: offsets.Next})
		}
	}
	if open.Partitions == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := connection.broker.Fetch(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.FetchRequest{Open: open, Credit: creditBytes}); err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return failure(err, stream.Trailer())
		}
		if err := messages(answer, each); err != nil {
			return err
		}
		// The stream may have ended by now; then its end is what Recv tells next.
		_ = stream.Send(&pb.FetchRequest{Credit: answer.StoredBytes})
	}
}

func messages(answer *pb.FetchAnswer, each func(Message)) error {
	var batch arrow.RecordBatch
	if answer.Batch != nil {
		var err error
		if batch, err = decode(answer.Columns, answer.Batch); err != nil {
			return err
		}
	}
	offsets, origins := &runs{list: runsIn(answer)}, &sources{list: answer.Origins}
	for row := 0; row < int(answer.Rows); row++ {
		run, offset := offsets.next()
		origin, sent := origins.next(offset)
		message := Message{
			Row: Row{
				Key:        bytesAt(column(batch, "key"), row),
				Value:      bytesAt(column(batch, "value"), row),
				Attributes: attributesAt(column(batch, "attributes"), row),
				Created:    momentAt(column(batch, "created"), row),
				ID:         fmt.Sprintf("%s-%x-%x-%x", hex.EncodeToString(origin.Producer), origin.Number, answer.Partition, sent),
			},
			Partition: answer.Partition,
			Offset:    offset,
			Arrived:   answer.Arrived,
			Due:       momentAt(column(batch, "due"), row),
			Expires:   momentAt(column(batch, "expires"), row),
			Group:     origin.Group,
		}
		if run.Arrived != 0 {
			message.Arrived = run.Arrived
		}
		if message.Created == 0 {
			message.Created = message.Arrived
		}
		if ids := column(batch, "id"); ids != nil && ids.IsValid(row) {
			message.ID = ids.(*array.String).Value(row)
		}
		each(message)
	}
	return nil
}

// runsIn gives the runs of an answer: as they are, or out of arrays where they are many.
func runsIn(answer *pb.FetchAnswer) []*pb.Run {
	told := answer.Scattered
	if told == nil {
		return answer.Runs
	}
	var list []*pb.Run
	var offset uint64
	moments := &arrivals{moments: told.Arrived, rows: told.ArrivedRows}
	for i, step := range told.Offsets {
		offset += step
		rows := uint32(1)
		if len(told.Rows) > 0 {
			rows = told.Rows[i]
		}
		list = append(list, &pb.Run{Offset: offset, Rows: rows, Arrived: moments.next(rows)})
	}
	return list
}

// arrivals goes through the moments of arrival run by run: the rows of a run have arrived together.
type arrivals struct {
	moments []int64
	rows    []uint32
	row     uint32
}

func (a *arrivals) next(rows uint32) int64 {
	if len(a.moments) == 0 {
		return 0
	}
	for a.row == a.rows[0] {
		a.moments, a.rows, a.row = a.moments[1:], a.rows[1:], 0
	}
	a.row += rows
	return a.moments[0]
}

// runs goes through the offsets of an answer row by row.
type runs struct {
	list []*pb.Run
	row  uint32
}

func (r *runs) next() (*pb.Run, uint64) {
	for r.row == r.list[0].Rows {
		r.list, r.row = r.list[1:], 0
	}
	r.row++
	return r.list[0], r.list[0].Offset + uint64(r.row-1)
}

// sources goes through the origins of an answer row by row.
type sources struct {
	list  []*pb.Origin
	row   uint32
	first uint64 // the offset of the origin's first row
}

func (s *sources) next(offset uint64) (*pb.Origin, uint32) {
	for s.row == s.list[0].Rows {
		s.list, s.row = s.list[1:], 0
	}
	if s.row == 0 {
		s.first = offset
	}
	s.row++
	return s.list[0], s.list[0].FirstRow + uint32(offset-s.first)
}
