package main

// Connecting, and errors as they travel.

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "bowstring.test/client/wire"
)

const callSeconds = 10 * time.Second

// Connection is one that has shaken hands.
type Connection struct {
	*grpc.ClientConn
	broker pb.BrokerClient
	hello  *pb.HelloAnswer
	drift  time.Duration // this clock minus the broker's
}

func connect(address string) (*Connection, error) {
	target := strings.TrimPrefix(address, "bowstring://")
	calls := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30))
	dialled, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), calls)
	if err != nil {
		return nil, err
	}
	c := &Connection{ClientConn: dialled, broker: pb.NewBrokerClient(dialled)}
	before := time.Now()
	request := &pb.HelloRequest{Software: "bowstring-go-test/1", Protocol: 1, ProtocolMin: 1, ClientTime: before.UnixMicro(), Name: "go"}
	err = c.call(func(ctx context.Context, trailer grpc.CallOption) error {
		c.hello, err = c.broker.Hello(ctx, request, grpc.WaitForReady(true), trailer)
		return err
	})
	if err != nil {
		dialled.Close()
		return nil, err
	}
	halfway := before.Add(time.Since(before) / 2)
	c.drift = time.Duration(halfway.UnixMicro()-c.hello.BrokerTime) * time.Microsecond
	return c, nil
}

func (c *Connection) brokerTime() int64 { return time.Now().Add(-c.drift).UnixMicro() }

func (c *Connection) topic(name string) (topic *pb.Topic, err error) {
	err = c.call(func(ctx context.Context, trailer grpc.CallOption) error {
		topic, err = c.broker.DescribeTopic(ctx, &pb.DescribeTopicRequest{Name: name}, trailer)
		return err
	})
	return topic, err
}

// call makes a call that is no stream, and finds the error that it failed with.
func (c *Connection) call(make func(context.Context, grpc.CallOption) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callSeconds)
	defer cancel()
	var trailer metadata.MD
	return failure(make(ctx, grpc.Trailer(&trailer)), trailer)
}

// Failure is an error of ours, as it came.
type Failure struct {
	Kind, Message, Hint, Status string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s %s", f.Kind, f.Message, f.Hint) }

func failure(err error, trailer metadata.MD) error {
	if err == nil {
		return nil
	}
	code := status.Code(err).String()
	for _, packed := range trailer.Get("bowstring-error-bin") {
		var told pb.Error
		if proto.Unmarshal([]byte(packed), &told) == nil {
			return &Failure{told.Kind, told.Message, told.Hint, code}
		}
	}
	return err
}
