package main

// The same messages over native frames: a socket, 12-byte headers, and credit.

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bowstring.test/client/wire"
)

const (
	kindOpen    = 1
	kindMessage = 2
	kindEnd     = 3
	kindError   = 4
	kindCredit  = 6
	kindPing    = 7
	kindPong    = 8
	flagLast    = 1
	messageCost = 256
	toBroker    = 1 << 20
	toClient    = 16 << 20
)

var preface = []byte("\x00BOWSTR\x01\r\n\r\n")

// Native is one connection, used by one goroutine, one call after the other.
type Native struct {
	net.Conn
	call          uint32
	credit, taken int64
}

func dialNative(address string) (*Native, error) {
	dialled, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	dialled.SetDeadline(time.Now().Add(callSeconds * 6))
	n := &Native{Conn: dialled}
	greeting := make([]byte, len(preface))
	if _, err = n.Write(preface); err == nil {
		_, err = io.ReadFull(n, greeting)
	}
	if err == nil && !bytes.Equal(greeting, preface) {
		err = fmt.Errorf("this is no broker that speaks version 1 of the frames: %x", greeting)
	}
	return n, err
}

func (n *Native) frame(kind, flags byte, call uint32, payload []byte) error {
	header := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	header = append(binary.LittleEndian.AppendUint32(header, call), kind, flags, 0, 0)
	_, err := n.Write(append(header, payload...))
	return err
}

func (n *Native) open(method string, milliseconds uint32) error {
	n.call, n.credit, n.taken = n.call+1, toBroker, 0
	return n.frame(kindOpen, 0, n.call, append(binary.LittleEndian.AppendUint32(nil, milliseconds), method...))
}

// send sends a message when there is credit for it. Messages that come meanwhile go to `came`.
func (n *Native) send(message proto.Message, flags byte, came func([]byte) error) error {
	payload, err := proto.Marshal(message)
	for err == nil && n.credit <= 0 {
		var received []byte
		if received, err = n.receive(); err == nil && received != nil {
			err = came(received)
		}
	}
	if err != nil {
		return err
	}
	n.credit -= int64(len(payload)) + messageCost
	return n.frame(kindMessage, flags, n.call, payload)
}

// receive takes one frame: a message of the call, or nil for anything else; io.EOF at the call's end.
func (n *Native) receive() ([]byte, error) {
	header := make([]byte, 12)
	if _, err := io.ReadFull(n, header); err != nil {
		return nil, fmt.Errorf("the connection broke: %w", err)
	}
	payload := make([]byte, binary.LittleEndian.Uint32(header))
	if _, err := io.ReadFull(n, payload); err != nil {
		return nil, fmt.Errorf("the connection broke: %w", err)
	}
	call, kind := binary.LittleEndian.Uint32(header[4:]), header[8]
	switch {
	case kind == kindPing:
		return nil, n.frame(kindPong, 0, 0, payload)
	case kind == kindError && (call == 0 || call == n.call):
		var told pb.Error
		if err := proto.Unmarshal(payload, &told); err != nil {
			return nil, err
		}
		return nil, &Failure{Kind: told.Kind, Message: told.Message, Hint: told.Hint}
	case call != n.call: // of a call that is over
		return nil, nil
	case kind == kindEnd:
		return nil, io.EOF
	case kind == kindCredit:
		n.credit += int64(binary.LittleEndian.Uint32(payload))
	case kind == kindMessage:
		n.taken += int64(len(payload)) + messageCost
		if n.taken >= toClient/2 && header[9]&flagLast == 0 {
			returned := binary.LittleEndian.AppendUint32(nil, uint32(n.taken))
			n.taken = 0
			return payload, n.frame(kindCredit, 0, call, returned)
		}
		return payload, nil
	}
	return nil, nil
}

func (n *Native) unary(method string, request, answer proto.Message) error {
	if err := n.open(method, uint32(callSeconds.Milliseconds())); err != nil {
		return err
	}
	if err := n.send(request, flagLast, nil); err != nil {
		return err
	}
	for {
		received, err := n.receive()
		if err != nil {
			return err
		}
		if received != nil {
			return proto.Unmarshal(received, answer)
		}
	}
}

// drain takes messages until the broker ends the call.
func (n *Native) drain(each func([]byte) error) error {
	for {
		received, err := n.receive()
		if err == nil && received != nil {
			err = each(received)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// native makes a topic, publishes so many batches of one row of so many bytes, reads them, and prints what it got.
func native(arguments []string) error {
	topic := arguments[1]
	count, _ := strconv.Atoi(arguments[2])
	size, _ := strconv.Atoi(arguments[3])
	n, err := dialNative(arguments[0])
	if err != nil {
		return err
	}
	defer n.Close()
	var hello pb.HelloAnswer
	if err := n.unary("Hello", &pb.HelloRequest{Software: "bowstring-go-native/1", Protocol: 1, ProtocolMin: 1}, &hello); err != nil {
		return err
	}
	if err := n.unary("CreateTopic", &pb.CreateTopicRequest{Name: topic}, &pb.Topic{}); err != nil {
		return err
	}
	stored, err := n.publish(topic, count, size, hello.BrokerTime)
	if err != nil {
		return err
	}
	rows, valueBytes := 0, 0
	from := &pb.FetchOpen{Topic: topic, Partitions: []*pb.FetchFrom{{Offset: 1, End: uint64(count) + 1}}}
	if err := n.open("Fetch", 0); err != nil {
		return err
	}
	if err := n.send(&pb.FetchRequest{Open: from, Credit: 1 << 40}, 0, nil); err != nil {
		return err
	}
	err = n.drain(func(received []byte) error {
		var answer pb.FetchAnswer
		if err := proto.Unmarshal(received, &answer); err != nil {
			return err
		}
		return messages(&answer, func(m Message) { rows, valueBytes = rows+1, valueBytes+len(m.Value) })
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"stored": stored, "rows": rows, "bytes": valueBytes})
}

func (n *Native) publish(topic string, count, size int, now int64) (stored int, err error) {
	id := make([]byte, 16)
	rand.Read(id)
	took := func(received []byte) error {
		var answer pb.PublishAnswer
		if err := proto.Unmarshal(received, &answer); err != nil {
			return err
		}
		stored += int(answer.GetStored().GetRows())
		return nil
	}
	if err := n.open("Publish", 0); err != nil {
		return 0, err
	}
	opened := &pb.PublishOpen{Topic: topic, Producer: id, Stream: 1, Group: "go"}
	if err := n.send(&pb.PublishRequest{Open: opened}, 0, took); err != nil {
		return 0, err
	}
	columns, batch := encode([]Row{{Value: bytes.Repeat([]byte("v"), size)}})
	for number := uint64(1); number <= uint64(count); number++ {
		request := &pb.PublishRequest{Number: number, Previous: number - 1, Sent: now, Timeout: uint64(timeout.Microseconds()),
			Schema: 1, Columns: columns, Rows: 1, Batch: batch}
		if err := n.send(request, 0, took); err != nil {
			return stored, err
		}
	}
	if err := n.frame(kindEnd, 0, n.call, nil); err != nil {
		return stored, err
	}
	return stored, n.drain(took)
}
