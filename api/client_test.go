package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/api/spec"
	"weir/messages/actorpb"
	"weir/messages/apipb"
	"weir/messages/commandpb"
)

// newClient returns a client that knows these replicas, in this order.
func newClient(t *testing.T, sites ...*site) *client.Client {
	t.Helper()
	cfg := client.Config{
		HTTP: &http.Client{Transport: &http.Transport{}}, URL: func(address string) string { return "http://" + address },
		// A try that is given up is made again, and counted again.
		Try: patience, Deadline: patience,
	}
	for _, s := range sites {
		// The fakes say where leaders are by names that nobody can resolve.
		s.lead("")
		cfg.Addresses = append(cfg.Addresses, strings.TrimPrefix(s.url, "http://"))
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func specOf(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	doc, err := spec.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := doc.Struct()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The client of this project and the API of this project understand each other,
// also when the first replica that is asked has no quorum.
func TestClientGoesToTheReplicaThatCan(t *testing.T) {
	stuck, good := newSite(t, func(l *Limits) { l.Patience = 100 * time.Millisecond }), newSite(t)
	stuck.quorum.Store(false)
	c := newClient(t, stuck, good)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	started, err := c.StartOperation(ctx, &apipb.StartRequest{Spec: specOf(t, "tasks: {t: {job_count: 1, command: [run]}}")})
	if err != nil || started.GetRepeated() {
		t.Fatalf("start: %v, %v", started, err)
	}
	if got := good.Applied(); got != 2 {
		t.Errorf("the replica that can applied %d commands, want 2", got)
	}
	_, err = c.StartOperation(ctx, &apipb.StartRequest{Spec: specOf(t, "tasks: {t: {job_count: 1, comand: [run]}}")})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != "invalid_spec" || !strings.Contains(refused.Message, `tasks.t.comand: unknown option; did you mean command?`) {
		t.Errorf("bad spec: %v", err)
	}
	good.quorum.Store(false)
	// What they say comes shortly before the end of the call; one that is late is asked again.
	for said := false; !said; {
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.GetOperation(short, started.GetOperationId())
		cancel()
		if said = err != nil && strings.Contains(err.Error(), "no leader is known"); !errors.Is(err, client.ErrUnreachable) || ctx.Err() != nil {
			t.Fatalf("nobody can: %v", err)
		}
	}
}

func TestClientFollowsAnOperation(t *testing.T) {
	s := newSite(t)
	id := s.run(1, "j1")
	s.output = func(m *actorpb.ReadOutput) (*actorpb.OutputPart, error) {
		all := "hello\n"
		part := all[m.GetOffset():min(int(m.GetOffset())+2, len(all))]
		next := m.GetOffset() + int64(len(part))
		return &actorpb.OutputPart{Data: []byte(part), NextOffset: next, End: next == int64(len(all))}, nil
	}
	c := newClient(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	var output strings.Builder
	if next, err := c.CopyOutput(ctx, &output, client.Output{JobID: "j1", Stream: "stdout", Offset: 1, Follow: true}); err != nil || next != 6 || output.String() != "ello\n" {
		t.Errorf("output %q to %d, %v", output.String(), next, err)
	}
	var states []string
	for op, err := range c.WatchOperation(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, op.GetState())
		switch op.GetState() {
		case "running":
			s.finish(id, "j1", "completed")
		case "completing":
			s.must(&commandpb.AdvanceOperation{OperationId: id, Term: 1, From: "completing", To: "completed"})
		}
	}
	if got := strings.Join(states, " "); got != "running completing completed" {
		t.Errorf("watch showed %s", got)
	}
	op, err := c.WaitOperation(ctx, id)
	if err != nil || op.GetState() != "completed" {
		t.Errorf("wait: %v, %v", op, err)
	}
}
