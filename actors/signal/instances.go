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

// Placed is an operation's job as the replicated state has it.
type Placed struct {
	Allocation *statepb.Allocation
	// Stop says why the job has to end; nil: it may go on.
	Stop *statepb.StopOrder
	// Readiness: it is not ready before it is said to be.
	Readiness bool
}

// Known is what a replica knows of the jobs of an operation.
type Known struct {
	Operation string
	// Over: it has ended, or is not known.
	Over   bool
	Placed []Placed
	// Heard are the signals, and Words the words of instances by job.
	Heard []*actorpb.InterruptionSignal
	Words map[string]*actorpb.InstanceWord
	// Unheard says of which nodes the leader has said that their agents are not heard.
	Unheard func(node string) bool
	// HostOf says where a node is.
	HostOf func(node string) string
}

// Instances returns the jobs of an operation as who wants to reach them should see
// them, by task and cookie: the replicated state, and what was heard since it was
// written. A job is draining when the state, a signal or its own word says so. One that was
// heard of and is not in the state any more has gone, and is listed while the signal is kept.
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
	out.Version = version(out)
	return out
}

// nodeUnheard is why an instance is not ready whose node may be dead.
const nodeUnheard = "its node is not heard"

// leavesByItself is the reason of an instance that is draining by its own word.
const leavesByItself = "own_word"

// take tells of an instance that may stay whether it takes requests, by its word, or by
// whether its task has readiness as long as there is none.
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

// drain tells of a job that runs whether it is on its way out, by the order that it
// has or by what was heard of it.
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

// version tells instances from others: the same for the same ones.
func version(instances *actorpb.Instances) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(instances)
	if err != nil {
		// Invariant: what was read from messages is one.
		panic(fmt.Sprintf("encode instances of operation %s: %v", instances.GetOperationId(), err))
	}
	sum := fnv.New128a()
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}
