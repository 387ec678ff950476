//go:build plantedbugs

package raftstore

import (
	"os"

	"weir/messages/commandpb"
	"weir/raftstore/command"
)

var acknowledgesTooEarly = os.Getenv("WEIR_PLANTED_BUG") == "ack_before_commit"

// tooEarly acknowledges the start of an operation that is not committed yet.
func tooEarly(commands []*commandpb.Command) []*commandpb.Result {
	if !acknowledgesTooEarly {
		return nil
	}
	decoded, err := command.Decode(commands[0])
	start, ok := decoded.(*commandpb.StartOperation)
	if err != nil || !ok {
		return nil
	}
	results := make([]*commandpb.Result, len(commands))
	results[0] = &commandpb.Result{Value: &commandpb.Result_StartOperation{
		StartOperation: &commandpb.StartOperationResult{OperationId: start.GetOperationId()},
	}}
	return results
}
