// A client of Bowstring in Go, written from the schema and docs/protocol.md alone: the proof that they are enough.
//
//	client vectors FILE                                   checks the hash of keys
//	client example                                        prints the worked example of the page, in hexadecimal
//	client publish ADDRESS TOPIC [-rows N] [-twice] ...   publishes messages, one JSON object a line; prints the answers
//	client read ADDRESS TOPIC [-where FILTER]             prints messages, one JSON object a line
//	client native ADDRESS TOPIC COUNT BYTES               publishes and reads over native frames
//	client consume ADDRESS TOPIC SUBSCRIPTION [-native]   leases messages and acks them; prints pushes and settlements
//	client steps ADDRESS TOPIC SUBSCRIPTION [-native]     a consumer that does what stdin says, step by step
//	client packed                                         prints the worked example of a settlement
//
// What fails is told as JSON on stderr.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"github.com/cespare/xxhash/v2"

	pb "bowstring.test/client/wire"
)

func main() {
	commands := map[string]func([]string) error{
		"vectors": vectors, "example": example, "publish": publish, "read": readAll, "native": native,
		"consume": consume, "steps": steps, "packed": packed,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "the commands are vectors, example, publish, read, native, consume, steps and packed")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		var told *Failure
		if !errors.As(err, &told) {
			told = &Failure{Message: err.Error()}
		}
		json.NewEncoder(os.Stderr).Encode(told)
		os.Exit(1)
	}
}

func vectors(arguments []string) error {
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	var file struct {
		Vectors []struct {
			KeyHex     string            `json:"key_hex"`
			Xxh64      string            `json:"xxh64"`
			Partitions map[string]uint32 `json:"partitions"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, vector := range file.Vectors {
		key, err := hex.DecodeString(vector.KeyHex)
		if err != nil {
			return err
		}
		if found := fmt.Sprintf("%016x", xxhash.Sum64(key)); found != vector.Xxh64 {
			return fmt.Errorf("the hash of %s is %s, not %s", vector.KeyHex, found, vector.Xxh64)
		}
		for count, partition := range vector.Partitions {
			partitions, _ := strconv.Atoi(count)
			if found := partitionOf(key, partitions); found != partition {
				return fmt.Errorf("of %s partitions %s goes to %d, not %d", count, vector.KeyHex, found, partition)
			}
		}
	}
	fmt.Println(len(file.Vectors))
	return nil
}

func example([]string) error {
	_, batch := encode([]Row{{Key: []byte("customer-42"), Value: []byte("one coffee")}, {Value: []byte("tea")}})
	fmt.Println(hex.EncodeToString(batch))
	return nil
}

func packed([]string) error {
	grants, outcomes, runs, offsets, rows := pack([]Part{
		{7, ack, [][2]uint64{{101, 4}, {107, 1}}},
		{7, nack, [][2]uint64{{105, 2}}},
		{7, release, [][2]uint64{{108, 3}}},
		{9, ack, nil},
	})
	arrays := map[string]any{"grants": grants, "outcomes": outcomes, "runs": runs, "offsets": offsets, "rows": rows}
	return json.NewEncoder(os.Stdout).Encode(arrays)
}

func publish(arguments []string) error {
	flags := flag.NewFlagSet("publish", flag.ExitOnError)
	rows := flags.Int("rows", 100, "rows of a batch")
	twice := flags.Bool("twice", false, "write every batch a second time, over another stream")
	spoil := flags.Uint64("spoil", 0, "the batch of this number says that it has a row more")
	breakAfter := flags.Int("break", 0, "break the connection after so many answers, once")
	flags.Parse(arguments[2:])
	printed := json.NewEncoder(os.Stdout)
	producer, err := newProducer(arguments[0], arguments[1], func(answer *pb.PublishAnswer) { printed.Encode(shown(answer)) })
	if err != nil {
		return err
	}
	producer.breakAfter = *breakAfter
	batches, err := gather(producer, *rows)
	if err != nil {
		return err
	}
	for _, batch := range batches {
		if batch.number == *spoil {
			batch.rows++
		}
	}
	if err := producer.flush(); err != nil || !*twice {
		return err
	}
	for _, batch := range batches {
		lane := producer.lane(batch.partition)
		lane.unanswered = append(lane.unanswered, batch)
	}
	return producer.flush()
}

// gather divides the messages of stdin into batches of a partition each.
func gather(producer *Producer, rows int) (batches []*Batch, err error) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	open := make([][]Row, producer.partitions)
	for lines.Scan() {
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, err
		}
		at := producer.partition(row)
		if open[at] = append(open[at], row); len(open[at]) == rows {
			batches = append(batches, producer.add(at, open[at]))
			open[at] = nil
		}
	}
	for at, left := range open {
		if len(left) > 0 {
			batches = append(batches, producer.add(uint32(at), left))
		}
	}
	return batches, lines.Err()
}

func shown(answer *pb.PublishAnswer) map[string]any {
	found := map[string]any{"partition": answer.Partition, "number": answer.Number}
	switch outcome := answer.Outcome.(type) {
	case *pb.PublishAnswer_Stored:
		found["first_offset"], found["rows"] = outcome.Stored.FirstOffset, outcome.Stored.Rows
		found["duplicate"] = outcome.Stored.Duplicate
		repeats := [][3]uint64{}
		for _, repeat := range outcome.Stored.Repeats {
			repeats = append(repeats, [3]uint64{uint64(repeat.Row), uint64(repeat.Rows), repeat.Offset})
		}
		found["repeats"] = repeats
	case *pb.PublishAnswer_Refused:
		found["refused"] = outcome.Refused.Kind
	case *pb.PublishAnswer_ResendAfter:
		found["resend_after"] = outcome.ResendAfter
	}
	return found
}

func readAll(arguments []string) error {
	flags := flag.NewFlagSet("read", flag.ExitOnError)
	where := flags.String("where", "", "only these rows")
	flags.Parse(arguments[2:])
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	printed := json.NewEncoder(out)
	return read(arguments[0], arguments[1], *where, func(message Message) { printed.Encode(message) })
}
