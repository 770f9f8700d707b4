package main

// A Consume stream over gRPC and over native frames.

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "bowstring.test/client/wire"
)

// consumeStream is a stream of either way in. Recv gives io.EOF when the broker has ended it well.
type consumeStream interface {
	Send(*pb.ConsumeRequest) error
	Recv() (*pb.ConsumeAnswer, error)
	CloseSend() error
	Break()
}

type grpcConsume struct {
	grpc.BidiStreamingClient[pb.ConsumeRequest, pb.ConsumeAnswer]
	connection *Connection
	cancel     context.CancelFunc
}

func dialGrpcConsume(address string) (consumeStream, error) {
	connection, err := connect(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := connection.broker.Consume(ctx)
	if err != nil {
		cancel()
		connection.Close()
		return nil, err
	}
	return &grpcConsume{stream, connection, cancel}, nil
}

func (g *grpcConsume) Recv() (*pb.ConsumeAnswer, error) {
	answer, err := g.BidiStreamingClient.Recv()
	if err == nil || err == io.EOF {
		return answer, err
	}
	return nil, failure(err, g.Trailer())
}

func (g *grpcConsume) Break() {
	g.connection.Close()
	g.cancel()
}

type nativeConsume struct {
	*Native
	waiting [][]byte // came while there was no credit to send
}

func dialNativeConsume(address string) (consumeStream, error) {
	n, err := dialNative(address)
	if err != nil {
		return nil, err
	}
	hello := &pb.HelloRequest{Software: "bowstring-go-native/1", Protocol: 1, ProtocolMin: 1}
	if err = n.unary("Hello", hello, &pb.HelloAnswer{}); err == nil {
		err = n.open("Consume", 0)
	}
	if err != nil {
		n.Close()
		return nil, err
	}
	return &nativeConsume{Native: n}, nil
}

func (n *nativeConsume) Send(request *pb.ConsumeRequest) error {
	return n.send(request, 0, func(received []byte) error {
		n.waiting = append(n.waiting, received)
		return nil
	})
}

func (n *nativeConsume) Recv() (*pb.ConsumeAnswer, error) {
	for len(n.waiting) == 0 {
		received, err := n.receive()
		if err != nil {
			return nil, err
		}
		if received != nil {
			n.waiting = append(n.waiting, received)
		}
	}
	answer := &pb.ConsumeAnswer{}
	err := proto.Unmarshal(n.waiting[0], answer)
	n.waiting = n.waiting[1:]
	return answer, err
}

func (n *nativeConsume) CloseSend() error { return n.frame(kindEnd, 0, n.call, nil) }

func (n *nativeConsume) Break() { n.Close() }
