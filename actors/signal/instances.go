package signal

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"weir/messages/actorpb"
	"weir/messages/statepb"
)

// Placed is a job of an operation in the replicated state.
type Placed struct {
	Allocation *statepb.Allocation
	// Stop is the order to end the job, or nil.
	Stop *statepb.StopOrder
	// Readiness means that the job's task has a readiness check: the job is not ready until it is
	// reported to be.
	Readiness bool
}

// Known is what a replica knows about the jobs of an operation.
type Known struct {
	Operation string
	// Over means that the operation has ended, or is unknown.
	Over   bool
	Placed []Placed
	// Heard are the signals of the operation's jobs. Words are the latest words of its instances,
	// by job.
	Heard []*actorpb.InterruptionSignal
	Words map[string]*actorpb.InstanceWord
	// Unheard reports whether the leader has announced that the agent of a node is unheard.
	Unheard func(node string) bool
	// HostOf returns the host of a node.
	HostOf func(node string) string
}

// Instances returns the jobs of an operation for clients that send requests to them, sorted by task
// and cookie. It combines the replicated state with the messages that were heard. A job is draining
// if the state, a signal or its own word says so. A job that has a signal but is no longer in the
// state has gone. It is listed as long as the signal is kept.
func (k Known) Instances() *actorpb.Instances {
	out := &actorpb.Instances{OperationId: k.Operation, Over: k.Over}
	signals := make(map[string]*actorpb.InterruptionSignal, len(k.Heard))
	for _, s := range k.Heard {
		signals[s.GetJobId()] = s
	}
	for _, p := range k.Placed {
		a := p.Allocation
		instance := &actorpb.Instance{
			JobId: a.GetJobId(), Task: a.GetTask(), Cookie: a.GetCookie(), Node: a.GetNode(), Host: k.HostOf(a.GetNode()), Ports: a.GetPorts(),
			State: actorpb.InstanceLive, StartTime: a.GetStartTime(),
		}
		drain(instance, p.Stop, signals[a.GetJobId()])
		take(instance, p.Readiness, k.Words[a.GetJobId()])
		if k.Unheard(a.GetNode()) && instance.GetState() == actorpb.InstanceLive {
			instance.Ready, instance.Unready = false, nodeUnheard
		}
		delete(signals, a.GetJobId())
		out.Instances = append(out.Instances, instance)
	}
	for _, s := range signals {
		out.Instances = append(out.Instances, &actorpb.Instance{
			JobId: s.GetJobId(), Task: s.GetTask(), Cookie: s.GetCookie(), Node: s.GetNode(), Host: k.HostOf(s.GetNode()), Ports: s.GetPorts(),
			State: actorpb.InstanceGone, StartTime: s.GetStartTime(),
		})
	}
	slices.SortFunc(out.Instances, func(a, b *actorpb.Instance) int {
		return cmp.Or(cmp.Compare(a.GetTask(), b.GetTask()), cmp.Compare(a.GetCookie(), b.GetCookie()), cmp.Compare(a.GetJobId(), b.GetJobId()))
	})
	out.Version = Version(out)
	return out
}

// nodeUnheard is why an instance on a node that may be dead is not ready.
const nodeUnheard = "its node is not heard"

// leavesByItself is the reason of an instance that has reported itself that it is draining.
const leavesByItself = "own_word"

// take sets whether a live instance accepts requests: by its last word or, without one, by whether
// its task has a readiness check.
func take(instance *actorpb.Instance, readiness bool, word *actorpb.InstanceWord) {
	if instance.GetState() != actorpb.InstanceLive {
		return
	}
	switch word.GetWord() {
	case actorpb.WordDraining:
		instance.State, instance.Reason = actorpb.InstanceDraining, leavesByItself
	case actorpb.WordNotReady:
		instance.Unready = word.GetReason()
	case actorpb.WordReady:
		instance.Ready = true
	default:
		instance.Ready = !readiness
	}
}

// drain marks an instance as draining or gone, by the job's stop order or by the signal that was
// received for it.
func drain(instance *actorpb.Instance, stop *statepb.StopOrder, heard *actorpb.InterruptionSignal) {
	switch {
	case heard.GetGone():
		instance.State = actorpb.InstanceGone
	case stop != nil:
		instance.State, instance.Reason = actorpb.InstanceDraining, stop.Why()
		if stop.GetTime() != nil {
			instance.Deadline = timestamppb.New(stop.Deadline())
		}
	case heard != nil:
		instance.State, instance.Reason, instance.Deadline = actorpb.InstanceDraining, heard.GetReason(), heard.GetDeadline()
	}
}

// Version returns a hash of instances: equal instances have equal versions.
func Version(instances *actorpb.Instances) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(instances)
	if err != nil {
		// Invariant: fields that were decoded from messages can be encoded.
		panic(fmt.Sprintf("encode instances of operation %s: %v", instances.GetOperationId(), err))
	}
	sum := fnv.New128a()
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}
