package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/discoveryjson"
)

// maxInstances bounds the jobs in an answer. So many jobs with all details fit into
// discoveryjson.MaxAnswer.
const maxInstances = 10_000

// known lists the valid requests, for error messages.
const known = `valid requests: ask "peers", "watch" or "notice"; do "acknowledge"; say "ready", "not_ready" or "draining"`

// parse reads a request.
func parse(line []byte) (discoveryjson.Request, error) {
	var request discoveryjson.Request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return request, fmt.Errorf("request %.60q: %w; %s", line, err, known)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request, fmt.Errorf("request %.60q: more than one object in a line", line)
	}
	switch request {
	case discoveryjson.Request{Ask: discoveryjson.AskPeers}, discoveryjson.Request{Ask: discoveryjson.AskWatch},
		discoveryjson.Request{Ask: discoveryjson.AskWatch, Changes: true},
		discoveryjson.Request{Ask: discoveryjson.AskNotice}, discoveryjson.Request{Do: discoveryjson.DoAcknowledge},
		discoveryjson.Request{Say: discoveryjson.SayReady}, discoveryjson.Request{Say: discoveryjson.SayNotReady},
		discoveryjson.Request{Say: discoveryjson.SayDraining}:
		return request, nil
	}
	return request, fmt.Errorf("request %.60q: not known; %s", line, known)
}

// encode returns an answer as a line.
func encode(answer discoveryjson.Answer) []byte {
	line, err := json.Marshal(answer)
	if err == nil && len(line) >= discoveryjson.MaxAnswer {
		err = fmt.Errorf("answer has %d bytes, the limit is %d", len(line), discoveryjson.MaxAnswer)
	}
	if err != nil {
		// Times after the year 9999 cannot be encoded. The text of the error can be.
		line, _ = json.Marshal(failure(err))
	}
	return append(line, '\n')
}

func failure(err error) discoveryjson.Answer { return discoveryjson.Answer{Error: err.Error()} }

// peers returns a view in the form that a job receives.
func peers(view View, self string) *discoveryjson.Peers {
	shown, omitted := cut(view)
	return &discoveryjson.Peers{
		Operation: view.Instances.GetOperationId(), AsOf: view.AsOf.UTC(), Over: view.Instances.GetOver(),
		Instances: instances(shown, self), Omitted: omitted,
	}
}

// cut returns the instances that fit into an answer, and how many do not.
func cut(view View) (shown []*actorpb.Instance, omitted int) {
	all := view.Instances.GetInstances()
	shown = all[:min(len(all), maxInstances)]
	return shown, len(all) - len(shown)
}

func instances(all []*actorpb.Instance, self string) []discoveryjson.Instance {
	out := make([]discoveryjson.Instance, 0, len(all))
	for _, one := range all {
		out = append(out, instance(one, self))
	}
	return out
}

func instance(one *actorpb.Instance, self string) discoveryjson.Instance {
	return discoveryjson.Instance{
		Job: one.GetJobId(), Task: one.GetTask(), Cookie: one.GetCookie(), Node: one.GetNode(), Host: one.GetHost(),
		Ports: one.GetPorts(), Self: one.GetJobId() == self, State: one.GetState(), Reason: one.GetReason(),
		Ready: one.GetReady(), Unready: one.GetUnready(), Deadline: timeOf(one.GetDeadline()), StartTime: timeOf(one.GetStartTime()),
	}
}

func timeOf(stamp *timestamppb.Timestamp) *time.Time {
	if stamp == nil {
		return nil
	}
	t := stamp.AsTime()
	return &t
}

// shows reports whether a view contains a job, or is final.
func shows(view View, job string) bool {
	return view.Instances.GetOver() ||
		slices.ContainsFunc(view.Instances.GetInstances(), func(one *actorpb.Instance) bool { return one.GetJobId() == job })
}
