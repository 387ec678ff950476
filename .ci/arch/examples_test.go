package arch

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// badExamples each break wantRule at wantAt, as a path and a line.
var badExamples = map[string]struct {
	path, text string // Added to goodTree.
	wantRule   string
	wantAt     string
	wantText   string
}{
	"a lower layer imports a higher one": {
		"messages/commandpb/up.go", "package commandpb\n\nimport _ \"weir/actors\"\n",
		"layers point down", "messages/commandpb/up.go:3", "messages imports weir/actors",
	},
	"a test imports a higher layer": {
		"scheduling/engine/up_test.go", "package engine\n\nimport _ \"weir/messages/commandpb\"\n",
		"layers point down", "scheduling/engine/up_test.go:3", "scheduling imports weir/messages/commandpb",
	},
	"code in a folder without a layer": {
		"docs/gen.go", "// Package docs generates.\npackage docs\n",
		"layers point down", "docs/gen.go:2", "folder docs has no layer",
	},
	"two folders of a layer need each other": {
		"messages/loop/loop.go", "// Package loop loops.\npackage loop\n\nimport _ \"weir/raftstore\"\n",
		"no cycles between folders", "messages/loop/loop.go:4", "raftstore comes back to messages",
	},
	"a pure package reads the clock": {
		"scheduling/engine/x.go", "package engine\n\nimport clock \"time\"\n\nvar start = clock.Now\n",
		"pure packages", "scheduling/engine/x.go:5", "uses time.Now",
	},
	"a pure package sleeps": {
		"raftstore/state/x.go", "package state\n\nimport \"time\"\n\nfunc f() {\n\ttime.Sleep(1)\n}\n",
		"pure packages", "raftstore/state/x.go:6", "uses time.Sleep",
	},
	"a pure package throws the shared dice": {
		"scheduling/engine/x.go", "package engine\n\nimport \"math/rand/v2\"\n\nvar die = rand.IntN(6)\n",
		"pure packages", "scheduling/engine/x.go:5", "uses rand.IntN",
	},
	"a pure package locks": {
		"scheduling/engine/x.go", "package engine\n\nimport _ \"sync/atomic\"\n",
		"pure packages", "scheduling/engine/x.go:3", "imports sync/atomic",
	},
	"a pure package logs": {
		"raftstore/command/x.go", "// Package command numbers.\npackage command\n\nimport _ \"log/slog\"\n",
		"pure packages", "raftstore/command/x.go:4", "imports log/slog",
	},
	"a pure package prints": {
		"scheduling/engine/x.go", "package engine\n\nimport \"fmt\"\n\nfunc f() { fmt.Println() }\n",
		"pure packages", "scheduling/engine/x.go:5", "uses fmt.Println",
	},
	"a pure package starts a goroutine": {
		"scheduling/engine/x.go", "package engine\n\nfunc f() {\n\tgo f()\n}\n",
		"pure packages", "scheduling/engine/x.go:4", "starts a goroutine",
	},
	"a pure package imports by a dot": {
		"scheduling/engine/x.go", "package engine\n\nimport . \"time\"\n",
		"pure packages", "scheduling/engine/x.go:3", "dot import of time",
	},
	"a pure package imports a library": {
		"scheduling/engine/x.go", "package engine\n\nimport _ \"github.com/google/uuid\"\n",
		"pure packages", "scheduling/engine/x.go:3", "imports github.com/google/uuid",
	},
	"the state machine imports the store": {
		"raftstore/state/x.go", "package state\n\nimport _ \"weir/raftstore\"\n",
		"pure packages", "raftstore/state/x.go:3", "imports weir/raftstore",
	},
	"an actor imports another": {
		"actors/node/x.go", "package node\n\nimport _ \"weir/actors/pool\"\n",
		"actors apart", "actors/node/x.go:3", "actors/node imports weir/actors/pool",
	},
	"an actor imports the root of all": {
		"actors/node/x.go", "package node\n\nimport _ \"weir/actors\"\n",
		"actors apart", "actors/node/x.go:3", "actors/node imports weir/actors",
	},
	"remote imports an actor": {
		"actors/remote/x.go", "package remote\n\nimport _ \"weir/actors/node\"\n",
		"actors apart", "actors/remote/x.go:3", "actors/remote imports weir/actors/node",
	},
	"the runner imports its agent": {
		"actors/agent/runner/x.go", "package runner\n\nimport _ \"weir/actors/agent\"\n",
		"actors apart", "actors/agent/runner/x.go:3", "actors/agent/runner imports weir/actors/agent",
	},
	"a deciding half acts": {
		"actors/node/lease.go", "// Package node keeps leases.\npackage node\n\nimport _ \"github.com/asynkron/protoactor-go/actor\"\n",
		"deciding half", "actors/node/lease.go:4", "the deciding half of actors/node",
	},
	"raft outside of the store": {
		"actors/x.go", "package actors\n\nimport _ \"github.com/hashicorp/raft\"\n",
		"one owner a dependency", "actors/x.go:3", "the replicated log belongs to raftstore",
	},
	"a newer version of the log's store outside of it": {
		"cmd/weir/x.go", "package main\n\nimport _ \"github.com/hashicorp/raft-boltdb/v2\"\n",
		"one owner a dependency", "cmd/weir/x.go:3", "the replicated log belongs to raftstore",
	},
	"memberlist outside of gossip": {
		"cluster/x.go", "// Package cluster knows who is here.\npackage cluster\n\nimport _ \"github.com/hashicorp/memberlist\"\n",
		"one owner a dependency", "cluster/x.go:4", "gossip belongs to cluster/gossip",
	},
	"protoactor outside of actors": {
		"cmd/weir/x.go", "package main\n\nimport _ \"github.com/asynkron/protoactor-go/actor\"\n",
		"one owner a dependency", "cmd/weir/x.go:3", "the actor system belongs to actors",
	},
	"an actor starts a process": {
		"actors/agent/x.go", "package agent\n\nimport _ \"os/exec\"\n",
		"one owner a dependency", "actors/agent/x.go:3", "starting processes belongs to",
	},
	"an actor starts a process by another name": {
		"actors/agent/x.go", "package agent\n\nimport sys \"syscall\"\n\nvar start = sys.ForkExec\n",
		"one owner a dependency", "actors/agent/x.go:5", "uses syscall.ForkExec",
	},
	"flags outside of cmd": {
		"actors/x.go", "package actors\n\nimport _ \"github.com/spf13/pflag\"\n",
		"one owner a dependency", "actors/x.go:3", "flags belongs to cmd",
	},
	"a package ends the process": {
		"raftstore/x.go", "package raftstore\n\nimport \"os\"\n\nfunc f() { os.Exit(1) }\n",
		"one owner a dependency", "raftstore/x.go:5", "uses os.Exit",
	},
	"the job proxy imports a library": {
		"cmd/weir-jobproxy/x.go", "package main\n\nimport _ \"google.golang.org/protobuf/proto\"\n",
		"lean job proxy", "cmd/weir-jobproxy/x.go:3", "cmd/weir-jobproxy imports google.golang.org/protobuf/proto",
	},
	"what the job proxy speaks imports a package of ours": {
		"actors/agent/runner/proxyproto/x.go", "package proxyproto\n\nimport _ \"weir/messages/commandpb\"\n",
		"lean job proxy", "actors/agent/runner/proxyproto/x.go:3", "imports weir/messages/commandpb",
	},
	"a program imports what is for tests": {
		"cmd/weir/x.go", "package main\n\nimport _ \"weir/scheduling/engine/enginetest\"\n",
		"test support", "cmd/weir/x.go:3", "which is for tests",
	},
	"no package comment": {
		"messages/commandpb/doc.go", "// Something else.\n\npackage commandpb\n",
		"package comment", "messages/commandpb/doc.go:3", "package commandpb has no package comment",
	},
	"a package comment of another name": {
		"cmd/weir/main.go", "// Package main is everything.\npackage main\n",
		"package comment", "cmd/weir/main.go:2", `"// Command weir …"`,
	},
	"a package named for nothing": {
		"actors/node/util/x.go", "// Package util does things.\npackage util\n",
		"package names", "actors/node/util/x.go:2", "package name util says nothing",
	},
	"a folder outside of the map": {
		"actors/secret/x.go", "// Package secret hides.\npackage secret\n",
		"map", "actors/secret/x.go:2", "folder actors/secret is not in DESIGN.md's map",
	},
	"no map": {
		"DESIGN.md", "# Design\n\n## Folders\n\n| `actors` | and so on |\n",
		"map", "DESIGN.md:1", "there is no map of the folders",
	},
	"no design page": {
		"DESIGN.md", "",
		"map", "DESIGN.md:1", "the page is missing",
	},
	"a log key that nobody knows": {
		"actors/node/log.go", "package node\n\nfunc f() { a.cfg.Logger.With(\"job\", 1).Debug(\"x\"); log.Warn(\"fact\", \"error\", err, \"jobb\", id) }\n",
		"log keys", "actors/node/log.go:3", `log key "jobb" is not in docs/logs.md`,
	},
	"a log key that nobody knows, in a list": {
		"actors/node/log.go", "package node\n\nfunc f() { all := []any{\"job\", 1}; all = append(all, \"jobb\", id); log.Warn(\"fact\", all...) }\n",
		"log keys", "actors/node/log.go:3", `log key "jobb" is not in docs/logs.md`,
	},
	"no table of log keys": {
		"docs/logs.md", "",
		"log keys", "docs/logs.md:1", "there is no table",
	},
	"a folder at the root that is not expected": {
		"internal/x.txt", "",
		"top level", "internal:1", "it has no place at the root",
	},
	"a type with more methods than one idea has": {
		"scheduling/engine/giant.go", "package engine\n\ntype giant struct{}\n" + strings.Repeat("\nfunc (*giant) f() {}\n", maxMethods+1),
		"size", "scheduling/engine/giant.go:3", "giant has 51 methods, more than 50",
	},
	"a test that is too long to read": {
		"scheduling/engine/long_test.go", "package engine\n\nfunc TestLong(t *testing.T) {\n" + strings.Repeat("\tt.Log()\n", maxTestLines+1) + "}\n",
		"length of tests", "scheduling/engine/long_test.go:3", "TestLong has 121 lines, more than 120",
	},
	"a proposer that stamps a command": {
		"actors/node/lose.go", "package node\n\nimport \"weir/messages/commandpb\"\n\nvar lost = &commandpb.SetNodeOffline{Term: 1, Time: now}\n",
		"stamps of the leader", "actors/node/lose.go:5", "a proposer sets the time of SetNodeOffline",
	},
	"a file at the root that is not expected": {
		"notes.txt", "",
		"top level", "notes.txt:1", "it has no place at the root",
	},
}

func tree(t *testing.T, files map[string]string) *repository {
	t.Helper()
	fsys := fstest.MapFS{}
	for p, text := range files {
		fsys[p] = &fstest.MapFile{Data: []byte(text)}
	}
	repo, err := readRepository(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func TestArchitectureAcceptsGoodTree(t *testing.T) {
	repo := tree(t, goodTree)
	for _, r := range rules {
		for _, b := range r.check(repo) {
			t.Errorf("%s: %s", r.name, b)
		}
	}
}

func TestArchitectureRulesCatch(t *testing.T) {
	for name, bad := range badExamples {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{bad.path: bad.text}
			for p, text := range goodTree {
				if p != bad.path {
					files[p] = text
				}
			}
			repo := tree(t, files)
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == bad.wantRule })
			if i < 0 {
				t.Fatalf("there is no rule %q", bad.wantRule)
			}
			var got []string
			for _, b := range rules[i].check(repo) {
				got = append(got, b.String())
			}
			matches := func(s string) bool {
				return strings.HasPrefix(s, bad.wantAt+": ") && strings.Contains(s, bad.wantText)
			}
			if !slices.ContainsFunc(got, matches) {
				t.Errorf("rule %q found %q, want one at %s that says %q", bad.wantRule, got, bad.wantAt, bad.wantText)
			}
		})
	}
}

// TestArchitectureRulesHaveExamples keeps a rule from being added without one.
func TestArchitectureRulesHaveExamples(t *testing.T) {
	shown := make(map[string]bool)
	for _, bad := range badExamples {
		shown[bad.wantRule] = true
	}
	for _, r := range rules {
		if !shown[r.name] {
			t.Errorf("rule %q has no bad example; add one to badExamples", r.name)
		}
	}
}
