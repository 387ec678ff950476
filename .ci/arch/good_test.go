package arch

import "strings"

// goodTree breaks no rule; each bad example adds to it or changes it.
var goodTree = map[string]string{
	".gitignore": "/bin/\n*.out\n",
	"bin/x.go":   "not Go, and ignored",
	"cpu.out":    "ignored",
	"Makefile":   "",
	"DESIGN.md": strings.ReplaceAll(`# Design

## Map

| folder | what is in it |
|---|---|
| 'cmd/weir' | the client and the servers |
| 'cmd/weir-jobproxy' | supervises |
| 'scheduling/engine' | decides |
| 'raftstore', 'raftstore/state', 'raftstore/command' | replicates |
| 'messages/commandpb' | the log |
| 'actors', 'actors/node', 'actors/remote' | acts, but not in 'actors/secret' |
| 'actors/agent', 'actors/agent/runner/proxyproto' | on a node |

## Lives

| state | folder |
|---|---|
| 'actors/secret' | is named here, outside of the map |
`, "'", "`"),
	"docs/logs.md": "| `job`, `error` | a job; what failed |\n",
	"cmd/weir/main.go": `// Command weir is everything.
package main

import (
	"os"
	"os/exec"
	"weir/actors"
)

func main() { actors.Start(); exec.Command("true"); os.Exit(0) }
`,
	"cmd/weir-jobproxy/main.go": `// Command weir-jobproxy supervises a job.
package main

import (
	"golang.org/x/sys/unix"
	"weir/actors/agent/runner/proxyproto"
)

func main() { unix.Exec("", nil, nil); proxyproto.Read() }
`,
	"scheduling/engine/engine.go": `// Package engine decides.
package engine

import (
	"math/rand/v2"
	"time"
)

func Next(now time.Time, seed uint64) uint64 { return rand.New(rand.NewPCG(seed, 0)).Uint64() }
`,
	"scheduling/engine/engine_test.go": `package engine

import (
	"os"
	"time"
	"pgregory.net/rapid"
	"weir/scheduling/engine/enginetest"
)

var start, home, check, build = time.Now(), os.Getenv("HOME"), rapid.Check, enginetest.Build
`,
	"scheduling/engine/enginetest/build.go": `// Package enginetest builds engines for tests.
package enginetest

import "os"

var Build = os.Getwd
`,
	"scheduling/engine/testdata/broken.go": "not parsed",
	"raftstore/store.go": `// Package raftstore replicates.
package raftstore

import (
	"github.com/hashicorp/raft"
	"weir/raftstore/state"
)

var _ = raft.Leader
var _ = state.New
`,
	"raftstore/state/state.go": `// Package state applies commands.
package state

import (
	"google.golang.org/protobuf/proto"
	"weir/messages/commandpb"
	"weir/scheduling/engine"
)

func New() { proto.Marshal(&commandpb.Entry{}); engine.Next() }
`,
	"messages/commandpb/doc.go": `// Package commandpb is the log.
package commandpb
`,
	"actors/actors.go": `// Package actors wires.
package actors

import (
	"github.com/asynkron/protoactor-go/actor"
	"weir/actors/agent"
	"weir/actors/node"
)

func Start() { actor.NewActorSystem(); agent.New(); node.New() }
`,
	"actors/node/actor.go": `package node

import (
	"github.com/asynkron/protoactor-go/actor"
	"weir/actors/remote"
)

func New() { actor.PropsFromProducer(nil); remote.Send() }
`,
	"actors/node/lease.go": `// Package node keeps leases.
package node
`,
	"actors/remote/remote.go": `// Package remote carries messages.
package remote

import "github.com/asynkron/protoactor-go/actor"

func Send() { actor.NewPID("", "") }
`,
	"actors/agent/job_actor.go": `// Package agent runs jobs.
package agent

import (
	"github.com/asynkron/protoactor-go/actor"
	"weir/actors/agent/runner"
)

func New() { actor.NewPID("", ""); runner.Run() }
`,
	"actors/agent/runner/runner.go": `// Package runner starts processes.
package runner

import (
	"os/exec"
	"weir/actors/agent/runner/proxyproto"
)

func Run() { exec.Command(""); proxyproto.Read() }
`,
	"actors/agent/runner/proxyproto/proto.go": `// Package proxyproto is what a runner and a job proxy say to each other.
package proxyproto

func Read() {}
`,
}
