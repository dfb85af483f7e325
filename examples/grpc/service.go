package main

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	serviceName = "millstream.example.Text"
	method      = "/" + serviceName + "/Upper"
)

// texter is the interface of the service. protoc-gen-go-grpc generates it, and service, from
//
//	service Text { rpc Upper(google.protobuf.StringValue) returns (google.protobuf.StringValue); }
//
// They are written by hand, so that the example needs no compiler of protocol buffers.
type texter interface {
	Upper(ctx context.Context, text *wrapperspb.StringValue) (*wrapperspb.StringValue, error)
}

var service = grpc.ServiceDesc{
	ServiceName: serviceName,
	HandlerType: (*texter)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Upper", Handler: handleUpper}},
}

func handleUpper(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any,
	error) {
	in := &wrapperspb.StringValue{}
	if err := decode(in); err != nil {
		return nil, err
	}
	if intercept == nil {
		return server.(texter).Upper(ctx, in)
	}
	handler := func(ctx context.Context, in any) (any, error) {
		return server.(texter).Upper(ctx, in.(*wrapperspb.StringValue))
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{Server: server, FullMethod: method}, handler)
}

// upper implements the service.
type upper struct{}

// Upper returns the text in upper case.
func (upper) Upper(_ context.Context, text *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	return wrapperspb.String(strings.ToUpper(text.GetValue())), nil
}
