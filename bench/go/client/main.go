// A Go gRPC client of Tollgate's gRPC port: each named check prints "ok <name>", or why not and
// ends with status 1.
//
//	go run ./client 127.0.0.1:8082 [check]...
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type check func(context.Context, *grpc.ClientConn) error

var checks = []struct {
	name string
	run  check
}{
	{"Check is answered", answered},
	{"a thousand Checks at once are answered", atOnce},
	{"health is told", healthy},
	{"a change of health is watched", watched},
	{"an unknown method is UNIMPLEMENTED", unimplemented},
	{"a broken message is INVALID_ARGUMENT", malformed},
	{"a deadline of a nanosecond is DEADLINE_EXCEEDED", hurried},
	{"a deadline of a minute is kept", patient},
	{"metadata of 8 KiB is taken", metadataOf(8<<10, codes.OK)},
	{"metadata of 1 MiB is refused", metadataOf(1<<20, codes.ResourceExhausted, codes.Internal, codes.Unavailable)},
	{"a message of 5 MiB is RESOURCE_EXHAUSTED", tooLarge},
	{"a call that is cancelled ends", cancelled},
	{"Check is answered after all that", answered},
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	failed := false
	for _, one := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := one.run(ctx, connection); err != nil {
			failed = true
			fmt.Printf("not ok %s: %v\n", one.name, err)
		} else {
			fmt.Printf("ok %s\n", one.name)
		}
		cancel()
	}
	if failed {
		os.Exit(1)
	}
}

// request is a Check without a credential, which is denied with 401.
func request() *authv3.CheckRequest {
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{
			Http: &authv3.AttributeContext_HttpRequest{
				Id: "go-client", Method: "POST", Path: "/llm/none/v1/chat/completions",
			},
		},
	}}
}

func answered(ctx context.Context, connection *grpc.ClientConn) error {
	answer, err := authv3.NewAuthorizationClient(connection).Check(ctx, request())
	if err != nil {
		return err
	}
	if got := answer.GetDeniedResponse().GetStatus().GetCode(); got != 401 {
		return fmt.Errorf("the answer is %v", answer)
	}
	return nil
}

func atOnce(ctx context.Context, connection *grpc.ClientConn) error {
	const calls = 1000
	var done sync.WaitGroup
	problems := make(chan error, calls)
	for range calls {
		done.Go(func() {
			if err := answered(ctx, connection); err != nil {
				problems <- err
			}
		})
	}
	done.Wait()
	close(problems)
	return <-problems
}

func healthy(ctx context.Context, connection *grpc.ClientConn) error {
	answer, err := healthv1.NewHealthClient(connection).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if answer.Status != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the answer is %v", answer.Status)
	}
	return nil
}

func watched(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := healthv1.NewHealthClient(connection).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if answer.Status != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the answer is %v", answer.Status)
	}
	return nil
}

func unimplemented(ctx context.Context, connection *grpc.ClientConn) error {
	err := connection.Invoke(ctx, "/some.Service/Method", request(), &authv3.CheckResponse{})
	return expect(err, codes.Unimplemented)
}

// broken is a codec that writes a field whose length goes beyond the message.
type broken struct{}

func (broken) Marshal(any) ([]byte, error) { return []byte{0x0a, 0x7f, 0x01}, nil }
func (broken) Unmarshal([]byte, any) error { return nil }
func (broken) Name() string                { return "proto" }

func malformed(ctx context.Context, connection *grpc.ClientConn) error {
	err := connection.Invoke(ctx, authv3.Authorization_Check_FullMethodName, request(), &authv3.CheckResponse{}, grpc.ForceCodec(broken{}))
	return expect(err, codes.InvalidArgument)
}

func hurried(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	_, err := authv3.NewAuthorizationClient(connection).Check(ctx, request())
	return expect(err, codes.DeadlineExceeded)
}

func patient(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return answered(ctx, connection)
}

func metadataOf(bytes int, allowed ...codes.Code) check {
	return func(ctx context.Context, connection *grpc.ClientConn) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-large", strings.Repeat("m", bytes))
		_, err := authv3.NewAuthorizationClient(connection).Check(ctx, request())
		return expect(err, allowed...)
	}
}

func tooLarge(ctx context.Context, connection *grpc.ClientConn) error {
	large := request()
	large.Attributes.Request.Http.Body = strings.Repeat("b", 5<<20)
	_, err := authv3.NewAuthorizationClient(connection).Check(ctx, large)
	return expect(err, codes.ResourceExhausted)
}

func cancelled(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := healthv1.NewHealthClient(connection).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	cancel()
	_, err = stream.Recv()
	return expect(err, codes.Canceled)
}

func expect(err error, allowed ...codes.Code) error {
	for _, code := range allowed {
		if status.Code(err) == code {
			return nil
		}
	}
	return fmt.Errorf("the status is %v (%v)", status.Code(err), err)
}
