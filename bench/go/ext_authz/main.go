// A minimal ext_authz server in Go: answers every Check with an allow and does nothing else.
//
//	go build -o /tmp/ext-authz ./ext_authz && /tmp/ext-authz 127.0.0.1:8082
//
// SIGTERM ends it.
package main

import (
	"context"
	"log"
	"net"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
)

type allowAll struct {
	authv3.UnimplementedAuthorizationServer
}

func (allowAll) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	header := &corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{Key: "x-maas-subscription", Value: "models-as-a-service/bench"},
	}
	return &authv3.CheckResponse{
		Status: &status.Status{},
		HttpResponse: &authv3.CheckResponse_OkResponse{
			OkResponse: &authv3.OkHttpResponse{
				Headers:         []*corev3.HeaderValueOption{header},
				HeadersToRemove: []string{"authorization"},
			},
		},
	}, nil
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, allowAll{})
	log.Fatal(server.Serve(listener))
}
