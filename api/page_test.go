package api

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/apipb"
)

var rewrite = flag.Bool("rewrite", false, "write the calls of docs/api.md from the .proto files")

// TestAPIPage holds the calls in docs/api.md to the .proto files and to the table of who may call what:
// each call is there, with a comment.
func TestAPIPage(t *testing.T) {
	const name = "../docs/api.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(data), "\n## Calls\n")
	if !found {
		t.Fatalf("%s has no section Calls", name)
	}
	want := head + "\n## Calls\n\n" + callsPage(t)
	if *rewrite {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is not what the .proto files say: go test ./api -run TestAPIPage -rewrite\n%s", name, diff)
	}
}

// callers says in words who may make a call.
var callers = map[need]string{
	everyone: "everyone", readers: "the owner, and those with `read`", subjects: "those with the right to the change",
	operatorsOnly: "operators", replicasOnly: "replicas",
}

// callsPage returns a table of calls for each service.
func callsPage(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("What a change needs is in [tenancy.md](tenancy.md). A call whose answer is marked with … answers with a stream.\n")
	calls := 0
	for _, file := range []protoreflect.FileDescriptor{apipb.File_apipb_api_proto, apipb.File_apipb_events_proto, apipb.File_apipb_explain_proto} {
		said := commentsOf(t, filepath.Join("../messages", file.Path()))
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| call | request | answer | who | |\n|---|---|---|---|---|\n", service.Name(), said.of(t, string(service.Name())))
			for j := range service.Methods().Len() {
				calls++
				method := service.Methods().Get(j)
				who := callers[needs["/"+string(service.FullName())+"/"+string(method.Name())]]
				if who == "" {
					t.Errorf("it is not known who may call %s", method.FullName())
				}
				stream := ""
				if method.IsStreamingServer() {
					stream = "…"
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s%s | %s | %s |\n", method.Name(), fieldsOf(method.Input()), fieldsOf(method.Output()), stream, who,
					said.of(t, string(service.Name())+"."+string(method.Name())))
			}
		}
	}
	if calls < len(needs) {
		t.Errorf("%d calls are on the page, but there are %d", calls, len(needs))
	}
	return b.String()
}

// fieldsOf returns the names of a message's fields.
func fieldsOf(message protoreflect.MessageDescriptor) string {
	var names []string
	for i := range message.Fields().Len() {
		names = append(names, "`"+string(message.Fields().Get(i).Name())+"`")
	}
	return strings.Join(names, ", ")
}

// comments are those of services, by name, and of calls, by service.call.
type comments map[string]string

func (c comments) of(t *testing.T, name string) string {
	t.Helper()
	if c[name] == "" {
		t.Errorf("%s has no comment in its .proto file", name)
	}
	return c[name]
}

var protoLine = regexp.MustCompile(`^\s*(?:(//)\s?(.*)|service (\w+) \{|rpc (\w+)\(.*)$`)

// commentsOf reads the comments of services and calls out of a .proto file.
func commentsOf(t *testing.T, path string) comments {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, service := comments{}, ""
	var before []string
	for line := range strings.Lines(string(data)) {
		found := protoLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case found == nil:
		case found[1] != "":
			before = append(before, found[2])
			continue
		case found[3] != "":
			service = found[3]
			all[service] = strings.Join(before, " ")
		case found[4] != "":
			all[service+"."+found[4]] = strings.ReplaceAll(strings.Join(before, " "), "|", "\\|")
		}
		before = nil
	}
	return all
}
