package main

// A producer: numbers, lanes, answers, and streams that replace each other.

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	pb "bowstring.test/client/wire"
)

const timeout = 60 * time.Second

// Batch is one of a producer's, from when it has a number on.
type Batch struct {
	partition, columns, rows uint32
	number                   uint64
	sent                     int64
	bytes                    []byte
	writes                   int // written and not answered
	queued                   bool
}

func (b *Batch) cost() int { return len(b.bytes) + 2048 }

// Lane is the order of one partition.
type Lane struct {
	last       uint64 // the last number that is known to be there
	unanswered []*Batch
}

func (l *Lane) previous(b *Batch) uint64 {
	before := l.last
	for _, other := range l.unanswered {
		if other.number < b.number {
			before = max(before, other.number)
		}
	}
	return before
}

func (l *Lane) drop(b *Batch) {
	l.unanswered = slices.DeleteFunc(l.unanswered, func(other *Batch) bool { return other == b })
}

// Producer publishes to one topic.
type Producer struct {
	address, topic string
	id             []byte
	stream         uint64
	number         uint64
	partitions     int
	lanes          map[uint32]*Lane
	batches        map[uint64]*Batch
	told           func(*pb.PublishAnswer)
	breakAfter     int // break the connection after so many answers, once
}

func newProducer(address, topic string, told func(*pb.PublishAnswer)) (*Producer, error) {
	id := make([]byte, 16)
	rand.Read(id)
	p := &Producer{address: address, topic: topic, id: id, lanes: map[uint32]*Lane{}, batches: map[uint64]*Batch{}, told: told}
	connection, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	described, err := connection.topic(topic)
	if err == nil {
		p.partitions = int(described.Partitions)
	}
	return p, err
}

// partition is where a message goes: by its key, else by its id, else to 0.
func (p *Producer) partition(row Row) uint32 {
	if row.Key != nil {
		return partitionOf(row.Key, p.partitions)
	}
	if row.ID != "" {
		return partitionOf([]byte(row.ID), p.partitions)
	}
	return 0
}

func partitionOf(key []byte, partitions int) uint32 {
	return uint32(xxhash.Sum64(key) % uint64(partitions))
}

// add makes a batch of rows of one partition.
func (p *Producer) add(partition uint32, rows []Row) *Batch {
	p.number++
	columns, bytes := encode(rows)
	batch := &Batch{partition: partition, columns: columns, rows: uint32(len(rows)), number: p.number, bytes: bytes}
	p.batches[batch.number] = batch
	p.lane(partition).unanswered = append(p.lane(partition).unanswered, batch)
	return batch
}

func (p *Producer) lane(partition uint32) *Lane {
	if p.lanes[partition] == nil {
		p.lanes[partition] = &Lane{}
	}
	return p.lanes[partition]
}

func (p *Producer) unanswered() (found []*Batch) {
	for _, lane := range p.lanes {
		found = append(found, lane.unanswered...)
	}
	slices.SortFunc(found, func(a, b *Batch) int { return int(a.number) - int(b.number) })
	return found
}

// flush publishes until every batch has its answer, over as many streams as that takes.
func (p *Producer) flush() error {
	for deadline := time.Now().Add(timeout); len(p.unanswered()) > 0; {
		err := p.serve()
		if _, ours := err.(*Failure); (ours && !repeatable(err)) || time.Now().After(deadline) {
			return err
		}
	}
	return nil
}

func repeatable(err error) bool {
	told, ours := err.(*Failure)
	return ours && (told.Kind == "unavailable" || told.Kind == "full")
}

// serve is one connection and one stream.
func (p *Producer) serve() error {
	connection, err := connect(p.address)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := connection.broker.Publish(ctx)
	if err != nil {
		return err
	}
	p.stream++
	open := &pb.PublishOpen{Topic: p.topic, Producer: p.id, Stream: p.stream, Group: "go"}
	if err := stream.Send(&pb.PublishRequest{Open: open}); err != nil {
		return err
	}
	answers, ended := make(chan *pb.PublishAnswer, 1024), make(chan error, 1)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				ended <- failure(err, stream.Trailer())
				return
			}
			answers <- answer
		}
	}()
	queue, under := p.unanswered(), 0
	for _, batch := range queue {
		batch.writes, batch.queued = 0, true
	}
	for len(p.unanswered()) > 0 {
		for len(queue) > 0 && (under == 0 || under+queue[0].cost() <= int(connection.hello.PublishWindow)/2) {
			batch := queue[0]
			queue = queue[1:]
			batch.queued = false
			if !slices.Contains(p.lane(batch.partition).unanswered, batch) {
				continue
			}
			if err := stream.Send(p.request(connection, batch)); err != nil {
				return <-ended
			}
			batch.writes++
			under += batch.cost()
		}
		select {
		case err := <-ended:
			return err
		case answer := <-answers:
			batch := p.batches[answer.Number]
			batch.writes--
			under -= batch.cost()
			queue = append(p.answered(batch, answer), queue...)
		}
		if p.breakAfter > 0 {
			if p.breakAfter--; p.breakAfter == 0 {
				return fmt.Errorf("broken on purpose")
			}
		}
	}
	return stream.CloseSend()
}

func (p *Producer) request(connection *Connection, batch *Batch) *pb.PublishRequest {
	if batch.sent == 0 {
		batch.sent = connection.brokerTime()
	}
	return &pb.PublishRequest{
		Partition: batch.partition,
		Number:    batch.number,
		Previous:  p.lane(batch.partition).previous(batch),
		Sent:      batch.sent,
		Timeout:   uint64(timeout.Microseconds()),
		Schema:    1,
		Columns:   batch.columns,
		Rows:      batch.rows,
		Batch:     batch.bytes,
	}
}

// answered gives what has to be written again.
func (p *Producer) answered(batch *Batch, answer *pb.PublishAnswer) (again []*Batch) {
	lane := p.lane(batch.partition)
	switch outcome := answer.Outcome.(type) {
	case *pb.PublishAnswer_Stored:
		lane.last = max(lane.last, batch.number)
		lane.drop(batch)
	case *pb.PublishAnswer_Refused:
		lane.drop(batch)
	case *pb.PublishAnswer_ResendAfter:
		if batch.writes > 0 {
			return nil // a later write of it is still to be answered
		}
		lane.last = outcome.ResendAfter
		for _, other := range lane.unanswered {
			if !other.queued {
				other.queued = true
				again = append(again, other)
			}
		}
	}
	p.told(answer)
	return again
}
