package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"google.golang.org/protobuf/types/known/structpb"

	"weir/messages/apipb"
)

// object is a JSON object.
type object map[string]any

// makePool and removePool are edits of the default tree.
func makePool(name string, options object) object {
	return object{"edits": []object{{"create": object{"name": name, "options": options}}}}
}

func removePool(name string) object { return object{"edits": []object{{"remove": name}}} }

// options are options of a pool as the Go client takes them.
func options(t *testing.T, of map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(of)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answerTime is kept back of a deadline for the answer to arrive in.
const answerTime = 20 * time.Second

// refusal is the answer to a call that was not carried out.
type refusal struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

// passes says whether the call may be answered if it is made again: see notNow, or the calls of other tests on the
// machine take long, and those of this subject wait for each other.
func (r *refusal) passes() bool {
	return notNow(r.Status) || strings.HasPrefix(r.Message, "overloaded: ")
}

// refusalOf returns the refusal in err, an empty one if it is something else.
func refusalOf(err error) *refusal {
	refused := &refusal{}
	errors.As(err, &refused)
	return refused
}

// httpClient returns a client with the certificate of a folder of c.certs.
func (c *cluster) httpClient(folder string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[folder]; known != nil {
		return known, nil
	}
	certificate, err := tls.LoadX509KeyPair(c.certs(folder, "tls.crt"), c.certs(folder, "tls.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(c.certs("operator-admin", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	made := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}}, ForceAttemptHTTP2: true,
	}}
	c.clients[folder] = made
	return made, nil
}

// post sends a body as curl does, and returns what a replica answers.
func (c *cluster) post(ctx context.Context, folder, replica, method, body string, headers ...string) (status int, answer []byte, err error) {
	client, err := c.httpClient(folder)
	if err != nil {
		return 0, nil, err
	}
	url := "https://" + c.addresses[replica] + "/weir.api.v1." + method
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if deadline, ok := ctx.Deadline(); ok {
		// As gRPC clients do by themselves: the replica is to answer before that.
		request.Header.Set("Connect-Timeout-Ms", fmt.Sprint(time.Until(deadline).Milliseconds()-answerTime.Milliseconds()))
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// call makes one call at one replica. The error is a refusal when it answered.
func (c *cluster) call(ctx context.Context, replica, method string, request object, answer proto.Message) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	status, data, err := c.post(ctx, "operator-admin", replica, method, string(body))
	if err != nil {
		return err
	}
	if status == http.StatusOK {
		return protojson.Unmarshal(data, answer)
	}
	refused := &refusal{Status: status}
	if err := json.Unmarshal(data, refused); err != nil {
		return fmt.Errorf("status %d, not JSON: %s", status, data)
	}
	return refused
}

// ask makes a call at whichever replica answers, as a patient client does.
func (c *cluster) ask(t testing.TB, method string, request object, answer proto.Message) {
	t.Helper()
	unsure := false
	until(t, method, func() string {
		var errs string
		for _, replica := range replicaNames {
			if !c.lives(replica) {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			err := c.call(ctx, replica, method, request, answer)
			cancel()
			if err == nil {
				return ""
			}
			if refused := refusalOf(err); refused.Status != 0 && !refused.passes() {
				if unsure && slices.Contains(doneAlready[method], refused.Code) {
					return ""
				}
				t.Fatalf("%s %v: %v", method, request, err)
			}
			unsure = true
			errs += fmt.Sprintf("%s: %v; ", replica, err)
		}
		return errs
	})
}

// anonymous is a TLS configuration without a certificate.
func (c *cluster) anonymous(t testing.TB) *tls.Config {
	t.Helper()
	client, err := c.httpClient("operator-admin")
	if err != nil {
		t.Fatal(err)
	}
	config := client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.Certificates = nil
	return config
}

// start starts an operation.
func (c *cluster) start(t testing.TB, spec object) (operation string) {
	t.Helper()
	var started apipb.StartResponse
	c.ask(t, "OperationService/Start", object{"spec": spec, "mutation_id": uuid.NewString()}, &started)
	return started.GetOperationId()
}

// one is the spec of an operation with one task.
func one(task object, more ...object) object {
	spec := object{"tasks": object{"task": task}}
	for _, fields := range more {
		for name, value := range fields {
			spec[name] = value
		}
	}
	return spec
}

// small is a task of count small jobs of the witness.
func small(count int, arguments ...string) object {
	return object{"job_count": count, "command": append([]string{program("witness")}, arguments...), "cpu_limit": 0.1, "memory_limit": "64MiB"}
}

// with returns a task with more fields.
func (o object) with(name string, value any) object {
	more := object{name: value}
	for name, value := range o {
		if _, set := more[name]; !set {
			more[name] = value
		}
	}
	return more
}

func (c *cluster) get(t testing.TB, operation string) *apipb.Operation {
	t.Helper()
	var answer apipb.GetOperationResponse
	c.ask(t, "OperationService/Get", object{"operation": operation}, &answer)
	return answer.GetOperation()
}

// ends waits until the operation has ended, in the state that is wanted.
func (c *cluster) ends(t testing.TB, operation, wantState string) *apipb.Operation {
	t.Helper()
	return c.endsWithin(t, 2*patience, operation, wantState)
}

// endsWithin is ends for an operation that takes long.
func (c *cluster) endsWithin(t testing.TB, length time.Duration, operation, wantState string) *apipb.Operation {
	t.Helper()
	var answer apipb.WaitOperationResponse
	for end := time.Now().Add(length); !answer.GetDone(); {
		if time.Now().After(end) {
			t.Fatalf("operation has not ended: %s\n%s", protojson.Format(answer.GetOperation()), c.describe(t, operation))
		}
		c.ask(t, "OperationService/Wait", object{"operation": operation, "timeout_millis": 5000}, &answer)
	}
	if got := answer.GetOperation().GetState(); got != wantState {
		t.Fatalf("operation is %s, want %s: %s\n%s", got, wantState, protojson.Format(answer.GetOperation()), c.describe(t, operation))
	}
	return answer.GetOperation()
}

// describe says for people what became of the jobs of an operation.
func (c *cluster) describe(t testing.TB, operation string) string {
	t.Helper()
	var text string
	for _, job := range c.jobs(t, operation) {
		text += fmt.Sprintf("%s[%d] %s at %s: %s %s %s\n", job.GetTask(), job.GetCookie(), job.GetId(), job.GetNode(), job.GetState(), job.GetAbortReason(), job.GetError().GetMessage())
	}
	return text
}

// becomes waits until what Get shows of an operation fits.
func (c *cluster) becomes(t testing.TB, operation, what string, fits func(*apipb.Operation) bool) (op *apipb.Operation) {
	t.Helper()
	until(t, "operation "+what, func() string {
		if op = c.get(t, operation); fits(op) {
			return ""
		}
		return protojson.Format(op)
	})
	return op
}

// runs waits until so many jobs of an operation run.
func (c *cluster) runs(t testing.TB, operation string, count int) (running []*apipb.Job) {
	t.Helper()
	until(t, fmt.Sprintf("%d jobs run", count), func() string {
		running = c.jobs(t, operation, "running")
		running = slices.DeleteFunc(running, func(job *apipb.Job) bool { return job.GetPid() == 0 })
		if len(running) >= count {
			return ""
		}
		return fmt.Sprintf("%d do: %s\n%s", len(running), protojson.Format(c.get(t, operation)), c.describe(t, operation))
	})
	return running
}

// jobs lists the jobs of an operation, in any of some states or all.
func (c *cluster) jobs(t testing.TB, operation string, states ...string) []*apipb.Job {
	t.Helper()
	var answer apipb.ListJobsResponse
	c.ask(t, "JobService/List", object{"operation": operation, "limit": 1000}, &answer)
	return slices.DeleteFunc(answer.GetJobs(), func(job *apipb.Job) bool { return len(states) > 0 && !slices.Contains(states, job.GetState()) })
}

// output reads all that is kept of a job's stdout or stderr.
func (c *cluster) output(t testing.TB, job, stream string) string {
	t.Helper()
	var text []byte
	for offset := int64(0); ; {
		var part apipb.JobOutputResponse
		c.ask(t, "JobService/Output", object{"job_id": job, "stream": stream, "offset": offset, "limit": 1 << 20}, &part)
		text = append(text, part.GetData()...)
		if part.GetEnd() {
			return string(text)
		}
		if part.GetNextOffset() <= offset {
			t.Fatalf("%s of job %s: after offset %d comes %d, and no end", stream, job, offset, part.GetNextOffset())
		}
		offset = part.GetNextOffset()
	}
}

// status asks one replica.
func (c *cluster) status(ctx context.Context, replica string) (*apipb.StatusResponse, error) {
	var answer apipb.StatusResponse
	err := c.call(ctx, replica, "ClusterService/Status", object{}, &answer)
	return &answer, err
}

// ready waits until a replica leads and so many nodes are online.
func (c *cluster) ready(t testing.TB, nodes int) {
	t.Helper()
	until(t, "the cluster is ready", func() string {
		st, err := c.status(t.Context(), c.leader(t))
		if err != nil {
			return err.Error()
		}
		if st.GetNodesOnline() >= int64(nodes) {
			return ""
		}
		return protojson.Format(st)
	})
}

// term is that of the replica that leads: while it stays the same, none other has led.
func (c *cluster) term(t testing.TB) (term uint64) {
	t.Helper()
	until(t, "the term is known", func() string {
		leader := c.leader(t)
		st, err := c.status(t.Context(), leader)
		if err != nil || st.GetLeader() != leader {
			return fmt.Sprint(st, err)
		}
		term = st.GetTerm()
		return ""
	})
	return term
}

// leader waits until a replica leads, and a majority follows it.
func (c *cluster) leader(t testing.TB) (leader string) {
	t.Helper()
	until(t, "a replica leads", func() string {
		var said string
		for _, replica := range replicaNames {
			if !c.lives(replica) {
				continue
			}
			st, err := c.status(t.Context(), replica)
			if err == nil && st.GetQuorum() && st.GetLeader() == replica {
				leader = replica
				return ""
			}
			said += fmt.Sprintf("%s: %s %v; ", replica, protojson.Format(st), err)
		}
		return said
	})
	return leader
}
