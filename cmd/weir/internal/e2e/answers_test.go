package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// notNow says whether a call was not answered for want of time or of a leader.
func notNow(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// doneAlready are the codes, by method, with which a call is refused that was carried out
// before: the answer to an earlier try may have been lost.
var doneAlready = map[string][]string{
	"PoolService/Edit":          {"already_exists", "not_found"},
	"TreeService/Create":        {"already_exists"},
	"OperationService/Abort":    {"failed_precondition"},
	"OperationService/Complete": {"failed_precondition"},
	"OperationService/Suspend":  {"failed_precondition"},
	"OperationService/Resume":   {"failed_precondition"},
	"JobService/Abort":          {"failed_precondition"},
	"JobService/Interrupt":      {"failed_precondition"},
}

// answered makes a call at one replica until that has something to say to it: connections
// break, and leaders change, where processes wait for a processor.
func (c *cluster) answered(t testing.TB, folder, replica, method, body string) (status int, answer []byte) {
	t.Helper()
	until(t, replica+" answers "+method, func() string {
		var err error
		ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
		defer cancel()
		if status, answer, err = c.post(ctx, folder, replica, method, body); err != nil || notNow(status) {
			return fmt.Sprintf("%d %s %v", status, answer, err)
		}
		return ""
	})
	return status, answer
}

// refusedBy makes a call that a replica must refuse.
func (c *cluster) refusedBy(t testing.TB, replica, method, body string) *refusal {
	t.Helper()
	return c.refusedTo(t, "operator-admin", replica, method, body)
}

// refusedTo makes a call with the certificate of a folder that a replica must refuse.
func (c *cluster) refusedTo(t testing.TB, folder, replica, method, body string) *refusal {
	t.Helper()
	status, data := c.answered(t, folder, replica, method, body)
	answer := &refusal{Status: status}
	if err := json.Unmarshal(data, answer); err != nil {
		t.Errorf("%s answers %d with no JSON: %s", method, status, data)
	}
	return answer
}

// refused makes a call that the cluster must refuse.
func (c *cluster) refused(t testing.TB, method string, request object) *refusal {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return c.refusedBy(t, c.leader(t), method, string(body))
}

// reads makes a call at one replica that reads, once that has caught up.
func (c *cluster) reads(t testing.TB, replica, method string, request object, answer proto.Message) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	status, data := c.answered(t, "operator-admin", replica, method, string(body))
	if status != http.StatusOK {
		t.Fatalf("%s %v at %s: %d %s", method, request, replica, status, data)
	}
	if err := protojson.Unmarshal(data, answer); err != nil {
		t.Fatal(err)
	}
}
