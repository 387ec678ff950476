package client

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// ReadAudit calls the function line for each line of the audit log of the replica at an address, as
// the request says. It sets request.After to the place at which it can go on after an error.
func (c clusterCalls) ReadAudit(ctx context.Context, address string, request *apipb.ReadAuditRequest, line func(string) error) error {
	const what = "read audit log"
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(auditSilence, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	stream, err := service[apipbconnect.AuditServiceClient](c.at(address)).Read(ctx, connect.NewRequest(request))
	if err != nil {
		return auditFailed(what, address, overdue(ctx, err))
	}
	for stream.Receive() {
		silence.Stop()
		for _, text := range stream.Msg().GetLines() {
			if err := line(text); err != nil {
				return errors.Join(err, stream.Close())
			}
		}
		request.After = stream.Msg().GetAfter()
		if !request.GetFollow() {
			silence.Reset(auditSilence)
		}
	}
	err = stream.Err()
	_ = stream.Close()
	return auditFailed(what, address, overdue(ctx, err))
}

// auditSilence is how long a replica may take for the first lines, and for the next ones unless these
// are still to be written. The pings of the connection detect a replica that dies later.
const auditSilence = 10 * time.Second

// auditFailed returns the error of a call to one replica.
func auditFailed(what, address string, err error) error {
	var answer *connect.Error
	if errors.As(err, &answer) {
		return refusal(what, address, answer)
	}
	return err
}
