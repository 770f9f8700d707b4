package main

// The commands of a consumer: one that works messages off, and one that does what it is told, step by step.

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	pb "bowstring.test/client/wire"
)

// consumerOf makes the consumer of the command line: ADDRESS TOPIC SUBSCRIPTION, then flags.
func consumerOf(arguments []string, flags *flag.FlagSet) (*Consumer, error) {
	native := flags.Bool("native", false, "over native frames")
	name := flags.String("name", "go", "the consumer's name")
	lease := flags.Uint64("lease", 0, "microseconds")
	credit := flags.Uint64("credit", 100, "messages that it holds at most")
	flags.Parse(arguments[3:])
	open := &pb.ConsumeOpen{Topic: arguments[1], Subscription: arguments[2], Consumer: *name, Lease: *lease}
	open.Create = &pb.CreateSubscriptionRequest{}
	return newConsumer(open, *credit, func() (consumeStream, error) {
		if *native {
			return dialNativeConsume(arguments[0])
		}
		return dialGrpcConsume(arguments[0])
	})
}

// consume acks messages until it has acked so many; it nacks some once, and prints what it got and what it made of it.
func consume(arguments []string) error {
	flags := flag.NewFlagSet("consume", flag.ExitOnError)
	count := flags.Int("count", 1, "messages to ack")
	fail := flags.Uint64("nack", 0, "nack every so manieth offset when it comes for the first time")
	breakAfter := flags.Int("break", 0, "break the connection behind every so manieth settlement, before its answer")
	c, err := consumerOf(arguments, flags)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	printed := json.NewEncoder(out)
	for done, sent := 0, 1; done < *count; sent++ {
		push, err := c.next()
		if err != nil {
			return err
		}
		acked, nacked := []uint64{}, []uint64{}
		for _, message := range push.Messages {
			if *fail != 0 && message.RetryCount == 0 && message.Offset%*fail == 0 {
				nacked = append(nacked, message.Offset)
			} else {
				acked = append(acked, message.Offset)
			}
		}
		var parts []Part
		if len(acked) > 0 {
			parts = append(parts, Part{push.Grant, ack, runsOf(acked)})
		}
		if len(nacked) > 0 {
			parts = append(parts, Part{push.Grant, nack, runsOf(nacked)})
		}
		settlement, err := c.settle(push.Partition, parts)
		if err != nil {
			return err
		}
		if *breakAfter != 0 && sent%*breakAfter == 0 {
			c.breakOff()
		}
		refused, err := c.answer(settlement)
		if err != nil {
			return err
		}
		printed.Encode(map[string]any{"push": push, "acked": acked, "nacked": nacked, "refused": refusals(refused)})
		done += len(acked) - refusedRows(refused)
	}
	return c.close()
}

// Step is what a consumer is told to do.
type Step struct {
	Do        string `json:"do"`
	Partition uint32 `json:"partition"`
	Lease     uint64 `json:"lease"`
	Parts     []Part `json:"parts"`
	Messages  uint64 `json:"messages"`
}

// steps does what it is told, one JSON object a line, and prints what came of it, one a line. It answers the broker only while it
// waits for something.
func steps(arguments []string) error {
	c, err := consumerOf(arguments, flag.NewFlagSet("steps", flag.ExitOnError))
	if err != nil {
		return err
	}
	printed := json.NewEncoder(os.Stdout)
	printed.Encode(map[string]any{"do": "opened"})
	var sent []*Settlement
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var step Step
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return err
		}
		told := map[string]any{"do": step.Do}
		switch step.Do {
		case "take":
			told["push"], err = c.next()
		case "send": // a settlement, whose answer "answers" waits for
			var settlement *Settlement
			if settlement, err = c.settle(step.Partition, step.Parts); err == nil {
				sent, told["request"] = append(sent, settlement), settlement.rows.Request
			}
		case "answers":
			refused := []map[string]any{}
			for _, settlement := range sent {
				var found []*pb.RefusedRows
				if found, err = c.answer(settlement); err != nil {
					break
				}
				refused = append(refused, refusals(found)...)
			}
			sent, told["refused"] = nil, refused
		case "extend":
			var extended *pb.RowsExtended
			if extended, err = c.extend(step.Partition, step.Lease, step.Parts); err == nil {
				told["until"], told["refused"] = extended.Until, refusals(extended.Refused)
			}
		case "credit":
			c.credit.Messages = step.Messages
			err = c.send(&pb.ConsumeRequest{Credit: c.credit})
		case "break":
			c.breakOff()
		case "connect":
			err = c.connect()
		case "lost": // waits until it has lost something
			for err == nil && len(c.lost) == 0 {
				err = c.receive()
			}
			lost := [][2]uint64{}
			for _, key := range c.lost {
				lost = append(lost, [2]uint64{uint64(key.partition), key.grant})
			}
			c.lost, told["lost"] = nil, lost
		case "close":
			printed.Encode(told)
			return c.close()
		default:
			return fmt.Errorf("there is no step %q", step.Do)
		}
		if err != nil {
			return err
		}
		printed.Encode(told)
	}
	return lines.Err()
}

func refusals(refused []*pb.RefusedRows) []map[string]any {
	found := []map[string]any{}
	for _, one := range refused {
		runs := [][2]uint64{}
		for i, offset := range one.Offsets {
			runs = append(runs, [2]uint64{offset, uint64(one.Rows[i])})
		}
		found = append(found, map[string]any{"grant": one.Grant, "runs": runs, "standing": one.Standing, "holder": one.Holder})
	}
	return found
}

func refusedRows(refused []*pb.RefusedRows) (rows int) {
	for _, one := range refused {
		for _, run := range one.Rows {
			rows += int(run)
		}
	}
	return rows
}
