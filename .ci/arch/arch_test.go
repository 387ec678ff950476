package arch

import (
	"os"
	"testing"
)

// rule is one rule of DESIGN.md that a machine can hold.
type rule struct {
	name  string
	check func(*repository) []breach
}

var rules = []rule{
	{"layers point down", checkLayers},
	{"no cycles between folders", checkCycles},
	{"pure packages", checkPure},
	{"actors apart", checkActorsApart},
	{"deciding half", checkDecidingHalf},
	{"one owner a dependency", checkOwners},
	{"lean job proxy", checkLean},
	{"test support", checkTestSupport},
	{"package comment", checkPackageComments},
	{"package names", checkPackageNames},
	{"map", checkMap},
	{"log keys", checkLogKeys},
	{"top level", checkTopLevel},
	{"size", checkSize},
	{"length of tests", checkTests},
	{"stamps of the leader", checkStamps},
}

// layers orders the top folders: a folder imports its own layer and those
// below it. Within a layer, cycles are refused.
var layers = [][]string{
	{"cmd", "examples"},
	{"api", "actors", "chaos"},
	{"raftstore", "cluster", "messages"},
	{"scheduling"},
}

// sharedByActors are the folders below actors that each actor package may import.
var sharedByActors = []string{"actors/remote", "actors/hearsay", "actors/reconcile"}

// pureFolder is a folder of pure packages: time, ids and chance arrive as data.
type pureFolder struct {
	dir string
	// may lists what is imported besides the allowed part of the standard library.
	may []string
}

var pureFolders = []pureFolder{
	{"scheduling/records", []string{"github.com/cespare/xxhash/v2"}},
	{"scheduling", []string{"weir/scheduling", "github.com/caio/go-tdigest"}},
	{"raftstore/command", []string{"weir/raftstore/command", "weir/messages", "weir/scheduling", "google.golang.org/protobuf"}},
	{"raftstore/state", []string{"weir/raftstore/state", "weir/raftstore/command", "weir/messages", "weir/scheduling", "google.golang.org/protobuf"}},
}

// impurePackages lists the standard packages, with all below them, that give a
// pure package a clock, a goroutine, a lock, a log, chance or I/O.
var impurePackages = []string{
	"context", "crypto/rand", "expvar", "hash/maphash", "io/ioutil", "log", "net",
	"os", "plugin", "runtime", "sync", "syscall", "unsafe",
}

// impureNames lists the impure names of packages that are otherwise allowed.
var impureNames = map[string][]string{
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"time": {"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
}

// seededNames lists what a pure package may use of math/rand: generators that
// are seeded by the caller, not the shared one.
var seededNames = []string{
	"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf", "PCG", "Rand", "Source", "Source64", "Zipf",
}

// owned is a dependency that few packages may touch, so that it can be replaced.
type owned struct {
	what     string
	imports  []string            // Packages, with all below them.
	names    map[string][]string // Single names of other packages.
	owners   []string            // Folders.
	testsMay bool
	instead  string
}

var ownedDependencies = []owned{
	{
		what: "the replicated log",
		imports: []string{
			"github.com/hashicorp/raft", "github.com/hashicorp/raft-autopilot", "github.com/hashicorp/raft-boltdb",
			"github.com/hashicorp/raft-wal", "go.etcd.io/bbolt",
		},
		owners:  []string{"raftstore"},
		instead: "declare the one to three methods that are needed here and take a raftstore value for them",
	},
	{
		what:    "digests",
		imports: []string{"github.com/caio/go-tdigest"},
		owners:  []string{"scheduling/memory"},
		instead: "take a memory.Digest",
	},
	{
		what:    "metrics",
		imports: []string{"github.com/prometheus"},
		owners:  []string{"api/metrics"},
		instead: "keep plain numbers and hand out a snapshot of them; a collector in api/metrics reads it",
	},
	{
		what:    "gossip",
		imports: []string{"github.com/hashicorp/memberlist", "github.com/hashicorp/serf"},
		owners:  []string{"cluster/gossip"},
		instead: "declare the one to three methods that are needed here and take a gossip value for them",
	},
	{
		what:    "object stores",
		imports: []string{"github.com/minio", "gopkg.in/ini.v1"},
		owners:  []string{"cluster/storage"},
		instead: "declare the one to three methods that are needed here and take a storage value for them",
	},
	{
		what:    "the actor system",
		imports: []string{"github.com/asynkron/protoactor-go"},
		owners:  []string{"actors"},
		instead: "let an actor package do it, behind an interface that is declared here",
	},
	{
		what:    "starting processes",
		imports: []string{"os/exec"},
		names: map[string][]string{
			"os":                    {"StartProcess"},
			"syscall":               {"Exec", "ForkExec", "StartProcess"},
			"golang.org/x/sys/unix": {"Exec"},
		},
		owners:   []string{"actors/agent/runner", "cmd/weir", "cmd/weir-jobproxy", "examples/clique"},
		testsMay: true,
		instead:  "ask actors/agent/runner to run it",
	},
	{
		what:     "flags",
		imports:  []string{"flag", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		owners:   []string{"cmd", "examples/clique"},
		testsMay: true,
		instead:  "take a Config; cmd fills it",
	},
	{
		what: "ending the process",
		names: map[string][]string{
			"log": {"Fatal", "Fatalf", "Fatalln"},
			"os":  {"Exit"},
		},
		owners:   []string{"cmd", "examples/clique"},
		testsMay: true,
		instead:  "return an error; only main ends the process",
	},
}

// protoactor is what a deciding half does without.
const protoactor = "github.com/asynkron/protoactor-go"

// leanFolders import the standard library, leanModules and each other, because one
// weir-jobproxy runs beside each job.
var leanFolders = []string{
	"cmd/weir-jobproxy", "cluster/clock", "actors/agent/runner/cgroup", "actors/agent/runner/output",
	"actors/agent/runner/proctree", "actors/agent/runner/proxyproto", "actors/agent/runner/rights", "scheduling/records", "scheduling/statistics",
}

// leanModules are small, and import the standard library alone.
var leanModules = []string{"golang.org/x/sys", "github.com/cespare/xxhash/v2"}

// emptyNames say nothing about the one idea of a package.
var emptyNames = []string{"base", "common", "helper", "helpers", "misc", "shared", "types", "util", "utils"}

var topFolders = []string{
	".ci", "actors", "api", "chaos", "cluster", "cmd", "deploy", "docs", "examples", "messages", "raftstore", "scheduling",
}

var topFiles = []string{
	".gitignore", ".golangci.yml", "CONTRIBUTING.md", "DESIGN.md", "LICENSE", "Makefile", "README.md", "go.mod", "go.sum",
}

func TestArchitecture(t *testing.T) {
	repo, err := readRepository(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, b := range r.check(repo) {
				t.Errorf("%s: %s", r.name, b)
			}
		})
	}
}
