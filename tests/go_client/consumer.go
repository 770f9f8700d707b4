package main

// A consumer: leases, settlements, and streams that replace each other. One goroutine uses it.

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	pb "bowstring.test/client/wire"
)

const (
	ack     = 1
	nack    = 2
	release = 4
	// So many requests of a partition may be ahead of their answers.
	aheadMax = 1024
)

// leaseKey names a lease: numbers count in a partition.
type leaseKey struct {
	partition uint32
	grant     uint64
}

// Push is what the broker has pushed together, all by one lease.
type Push struct {
	Partition uint32     `json:"partition"`
	Grant     uint64     `json:"grant"`
	Until     int64      `json:"until"`
	Again     bool       `json:"again"`
	Messages  []Consumed `json:"messages"`
}

// Consumed is a message with what the lease says about it.
type Consumed struct {
	Message
	RetryCount uint32 `json:"retry_count"`
}

// Part is messages of one lease, and what became of them; without runs all that the lease still has, come or not.
type Part struct {
	Grant   uint64      `json:"grant"`
	Outcome uint32      `json:"outcome"`
	Runs    [][2]uint64 `json:"runs"`
}

// Settlement is a request from when it is written until it is answered.
type Settlement struct {
	rows    *pb.SettleRows
	parts   []Part
	written int64
	refused []*pb.RefusedRows
	done    bool
}

// Extension is the same of an extension, which is not sent again.
type Extension struct {
	written int64
	answer  *pb.RowsExtended
}

// Consumer holds messages of one subscription, over as many streams as it takes.
type Consumer struct {
	open        *pb.ConsumeOpen
	credit      *pb.ConsumeCredit
	dial        func() (consumeStream, error)
	stream      consumeStream
	began       time.Time
	opening     int64             // when the stream was opened, until that is answered
	bound       int64             // the lease time is at most so far ahead of our clock
	requests    map[uint32]uint64 // the last number of each partition
	numbersFrom uint64            // numbers go on above this, once nothing is unanswered
	unanswered  []*Settlement     // in the order of their numbers
	extensions  map[uint64]*Extension
	number      uint64
	held        map[leaseKey]map[uint64]bool // offsets, until their settlement is answered
	newest      leaseKey                     // of the last push: more of it may be to come
	pushes      []*Push                      // not handed out yet
	lost        []leaseKey
}

func newConsumer(open *pb.ConsumeOpen, credit uint64, dial func() (consumeStream, error)) (*Consumer, error) {
	open.Instance = make([]byte, 16)
	rand.Read(open.Instance)
	c := &Consumer{open: open, credit: &pb.ConsumeCredit{Messages: credit, Bytes: 1 << 24}, dial: dial, began: time.Now()}
	c.requests, c.extensions, c.held = map[uint32]uint64{}, map[uint64]*Extension{}, map[leaseKey]map[uint64]bool{}
	return c, c.connect()
}

// clock is monotonic, in microseconds.
func (c *Consumer) clock() int64 { return time.Since(c.began).Microseconds() }

// connect opens a stream; it tries again for a while if the broker is away.
func (c *Consumer) connect() (err error) {
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		if err = c.reopen(); err == nil || !worthRepeating(err) || time.Now().After(deadline) {
			return err
		}
	}
}

func worthRepeating(err error) bool {
	_, ours := err.(*Failure)
	return (!ours || repeatable(err)) && err != io.EOF
}

// reopen is one stream: it says what is held and sends again what has no answer.
func (c *Consumer) reopen() (err error) {
	c.breakOff()
	if c.stream, err = c.dial(); err != nil {
		c.stream = nil
		return err
	}
	c.opening, c.extensions, c.open.Held = c.clock(), map[uint64]*Extension{}, nil
	grants := map[uint32][]uint64{}
	for key := range c.held {
		if key != c.newest {
			grants[key.partition] = append(grants[key.partition], key.grant)
		}
	}
	for partition, held := range grants {
		c.open.Held = append(c.open.Held, &pb.HeldLeases{Partition: partition, Grants: held})
	}
	requests := []*pb.ConsumeRequest{{Open: c.open, Credit: c.credit}}
	for _, settlement := range c.unanswered {
		settlement.written = c.opening
		requests = append(requests, &pb.ConsumeRequest{Settle: []*pb.SettleRows{settlement.rows}})
	}
	for _, request := range append(requests, &pb.ConsumeRequest{Ready: true}) {
		if err = c.stream.Send(request); err != nil && err != io.EOF { // gRPC tells why when it receives
			return err
		}
	}
	for c.opening != 0 {
		answer, err := c.stream.Recv()
		if err != nil {
			return err
		}
		if err := c.take(answer); err != nil {
			return err
		}
	}
	return nil
}

// breakOff leaves the connection without a word.
func (c *Consumer) breakOff() {
	if c.stream != nil {
		c.stream.Break()
		c.stream = nil
	}
}

// send sends a request; if the stream breaks, what had to be repeated was.
func (c *Consumer) send(request *pb.ConsumeRequest) error {
	if c.stream == nil {
		return c.connect()
	}
	if err := c.stream.Send(request); err != nil && err != io.EOF {
		return c.connect()
	}
	return nil
}

// receive takes one answer, over another stream if this one has broken.
func (c *Consumer) receive() error {
	if c.stream == nil {
		return c.connect()
	}
	answer, err := c.stream.Recv()
	if err == nil {
		return c.take(answer)
	}
	if !worthRepeating(err) {
		return err
	}
	return c.connect()
}

func (c *Consumer) take(answer *pb.ConsumeAnswer) error {
	if opened := answer.Opened; opened != nil {
		c.numbersFrom = opened.NumbersFrom
		c.open.TopicId, c.open.SubscriptionId = opened.TopicId, opened.SubscriptionId
		c.bound, c.opening = answer.Now-c.opening, 0
	}
	for _, settled := range answer.Settled {
		c.settled(settled, answer.Now)
	}
	for _, extended := range answer.Extended {
		if waiting := c.extensions[extended.Number]; waiting != nil {
			waiting.answer, c.bound = extended, answer.Now-waiting.written
		}
	}
	for _, lost := range answer.Lost {
		for _, grant := range lost.Grants {
			c.drop(leaseKey{lost.Partition, grant})
		}
	}
	if answer.Lease != nil {
		if err := c.pushed(answer); err != nil {
			return err
		}
	}
	if answer.Ping != 0 {
		return c.send(&pb.ConsumeRequest{Pong: answer.Ping})
	}
	return nil
}

func (c *Consumer) settled(answer *pb.RowsSettled, now int64) {
	for i, settlement := range c.unanswered {
		if settlement.rows.Partition == answer.Partition && settlement.rows.Request == answer.Request {
			settlement.refused, settlement.done, c.bound = answer.Refused, true, now-settlement.written
			for _, part := range settlement.parts {
				c.forget(leaseKey{answer.Partition, part.Grant}, part.Runs)
			}
			c.unanswered = slices.Delete(c.unanswered, i, i+1)
			return
		}
	}
}

func (c *Consumer) drop(key leaseKey) {
	if c.held[key] == nil { // a repeated settlement has just settled it
		return
	}
	delete(c.held, key)
	c.lost = append(c.lost, key)
	c.pushes = slices.DeleteFunc(c.pushes, func(p *Push) bool { return p.Partition == key.partition && p.Grant == key.grant })
}

func (c *Consumer) pushed(answer *pb.ConsumeAnswer) error {
	page, lease := answer.Page, answer.Lease
	page.Batch = answer.Batch
	key := leaseKey{page.Partition, lease.Grant}
	if c.held[key] == nil {
		c.held[key] = map[uint64]bool{}
	}
	have, retries := c.held[key], &counts{numbers: lease.RetryCounts, rows: lease.RetryRows}
	push := &Push{Partition: page.Partition, Grant: lease.Grant, Until: lease.Until, Again: lease.Again}
	err := messages(page, func(message Message) {
		count := retries.next()
		if !have[message.Offset] { // else it was pushed before, on an earlier stream
			have[message.Offset] = true
			push.Messages = append(push.Messages, Consumed{message, count})
		}
	})
	if len(push.Messages) > 0 {
		c.pushes = append(c.pushes, push)
	}
	c.newest = key
	return err
}

// next is the next push that is held for certain.
func (c *Consumer) next() (*Push, error) {
	for {
		for len(c.pushes) == 0 {
			if err := c.receive(); err != nil {
				return nil, err
			}
		}
		push := c.pushes[0]
		c.pushes = c.pushes[1:]
		if push.Until > c.clock()+c.bound {
			return push, nil
		}
		delete(c.held, leaseKey{push.Partition, push.Grant})
	}
}

// settle writes what became of messages, and does not wait for the answer.
func (c *Consumer) settle(partition uint32, parts []Part) (*Settlement, error) {
	for c.ahead(partition) >= aheadMax {
		if err := c.receive(); err != nil {
			return nil, err
		}
	}
	if c.ahead(partition) == 0 {
		c.requests[partition] = max(c.requests[partition], c.numbersFrom)
	}
	rows := &pb.SettleRows{Partition: partition, Request: c.requests[partition] + 1}
	rows.Answered = rows.Request - 1 - c.ahead(partition)
	rows.Grants, rows.Outcomes, rows.Runs, rows.Offsets, rows.Rows = pack(parts)
	c.requests[partition] = rows.Request
	settlement := &Settlement{rows: rows, parts: parts, written: c.clock()}
	c.unanswered = append(c.unanswered, settlement)
	return settlement, c.send(&pb.ConsumeRequest{Settle: []*pb.SettleRows{rows}})
}

// ahead is how many numbers of a partition are used and not answered.
func (c *Consumer) ahead(partition uint32) uint64 {
	for _, settlement := range c.unanswered { // the first is the lowest
		if settlement.rows.Partition == partition {
			return c.requests[partition] - settlement.rows.Request + 1
		}
	}
	return 0
}

func (c *Consumer) forget(key leaseKey, runs [][2]uint64) {
	for _, run := range runs {
		for offset := run[0]; offset < run[0]+run[1]; offset++ {
			delete(c.held[key], offset)
		}
	}
	if len(runs) == 0 || len(c.held[key]) == 0 {
		delete(c.held, key)
	}
}

// answer waits for the answer to a settlement.
func (c *Consumer) answer(settlement *Settlement) ([]*pb.RefusedRows, error) {
	for !settlement.done {
		if err := c.receive(); err != nil {
			return nil, err
		}
	}
	return settlement.refused, nil
}

// extend holds messages for longer, and waits for the answer. A broken stream is told: extend again.
func (c *Consumer) extend(partition uint32, lease uint64, parts []Part) (*pb.RowsExtended, error) {
	c.number++
	rows := &pb.ExtendRows{Partition: partition, Number: c.number, Lease: lease}
	rows.Grants, _, rows.Runs, rows.Offsets, rows.Rows = pack(parts)
	waiting := &Extension{written: c.clock()}
	c.extensions[c.number] = waiting
	if err := c.send(&pb.ConsumeRequest{Extend: []*pb.ExtendRows{rows}}); err != nil {
		return nil, err
	}
	for waiting.answer == nil {
		if err := c.receive(); err != nil {
			return nil, err
		}
		if c.extensions[rows.Number] == nil {
			return nil, fmt.Errorf("the stream broke before extension %d was answered", rows.Number)
		}
	}
	delete(c.extensions, rows.Number)
	for _, part := range parts {
		for _, push := range c.pushes {
			if len(part.Runs) == 0 && push.Partition == partition && push.Grant == part.Grant {
				push.Until = max(push.Until, waiting.answer.Until)
			}
		}
	}
	return waiting.answer, nil
}

// close gives back what is not settled, and ends the stream.
func (c *Consumer) close() error {
	c.credit.Messages = 0
	if err := c.send(&pb.ConsumeRequest{Credit: c.credit}); err != nil {
		return err
	}
	for {
		for len(c.unanswered) > 0 {
			if err := c.receive(); err != nil {
				return err
			}
		}
		if len(c.held) == 0 {
			break
		}
		for _, key := range slices.Collect(maps.Keys(c.held)) {
			if _, err := c.settle(key.partition, c.endings(key)); err != nil {
				return err
			}
		}
	}
	if err := c.stream.CloseSend(); err != nil {
		return err
	}
	for {
		if _, err := c.stream.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// endings nacks the messages of a lease that were handed out, and releases the others, also those that have not come.
func (c *Consumer) endings(key leaseKey) (parts []Part) {
	seen := maps.Clone(c.held[key])
	for _, push := range c.pushes {
		if push.Partition == key.partition && push.Grant == key.grant {
			for _, message := range push.Messages {
				delete(seen, message.Offset)
			}
		}
	}
	if len(seen) > 0 {
		parts = append(parts, Part{key.grant, nack, runsOf(slices.Collect(maps.Keys(seen)))})
	}
	return append(parts, Part{key.grant, release, nil})
}

// pack puts parts behind each other, as they travel.
func pack(parts []Part) (grants []uint64, outcomes, runs []uint32, offsets []uint64, rows []uint32) {
	for _, part := range parts {
		grants, outcomes, runs = append(grants, part.Grant), append(outcomes, part.Outcome), append(runs, uint32(len(part.Runs)))
		for _, run := range part.Runs {
			offsets, rows = append(offsets, run[0]), append(rows, uint32(run[1]))
		}
	}
	return grants, outcomes, runs, offsets, rows
}

func runsOf(offsets []uint64) (runs [][2]uint64) {
	slices.Sort(offsets)
	for _, offset := range offsets {
		if last := len(runs) - 1; last >= 0 && runs[last][0]+runs[last][1] == offset {
			runs[last][1]++
		} else {
			runs = append(runs, [2]uint64{offset, 1})
		}
	}
	return runs
}

// counts goes through the retry counts of a push row by row.
type counts struct {
	numbers, rows []uint32
	row           uint32
}

func (c *counts) next() uint32 {
	for len(c.rows) > 0 && c.row == c.rows[0] {
		c.numbers, c.rows, c.row = c.numbers[1:], c.rows[1:], 0
	}
	if len(c.rows) == 0 {
		return 0
	}
	c.row++
	return c.numbers[0]
}
