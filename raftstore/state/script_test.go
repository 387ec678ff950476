package state

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"weir/messages/statepb"
	"weir/scheduling"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts of testdata yield into them; read the difference")

// trailing finds spaces at the ends of lines.
var trailing = regexp.MustCompile(` +\n`)

// TestScripts runs testdata/*.txt. A script is steps that an empty line parts,
// each the input, a line "----" and the output. A line of input is a command, its
// name and then its fields as protobuf text, or one of
//
//	# a comment
//	wait DURATION      lets the clock of the proposer run
//	show KIND NAME     shows an operation, its work, what of its sweep has failed,
//	                   allocations, a node, the pools of a tree, memory profiles, or claims
//	                   and rates of preemption
//	restart            goes on with a state restored from a snapshot
//
// A command is proposed at the script's time, in the present term and, where
// there is one, in the epoch of its operation, unless it says otherwise.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { runScript(t, path) })
	}
}

func runScript(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, state: New(), now: epochStart}
	var rewritten []string
	for _, step := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		input, want, _ := strings.Cut(step, "----")
		input = strings.TrimSpace(input)
		s.out.Reset()
		for _, line := range strings.Split(input, "\n") {
			s.run(line)
		}
		got := strings.TrimSpace(trailing.ReplaceAllString(s.out.String(), "\n"))
		rewritten = append(rewritten, strings.TrimSpace(input+"\n----\n"+got))
		if want = strings.TrimSpace(want); got != want && !*rewrite {
			t.Errorf("%s:\n%s\n---- got\n%s\n---- want\n%s", path, input, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(strings.Join(rewritten, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// script is a state that a script drives, and what it has to say.
type script struct {
	t     *testing.T
	state *State
	now   time.Time
	index uint64
	out   strings.Builder
}

func (s *script) run(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "#":
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		s.now = s.now.Add(d)
	case "show":
		kind, name, _ := strings.Cut(rest, " ")
		s.show(kind, name)
	case "restart":
		s.state = mustRestore(s.t, s.state.Freeze())
	default:
		s.apply(word, rest)
	}
	if err := s.state.Verify(); err != nil {
		s.t.Fatalf("after %s: %v", line, err)
	}
}

func (s *script) apply(name, fields string) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("weir.command.v1." + name))
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	msg := kind.New().Interface()
	if err := prototext.Unmarshal([]byte(fields), msg); err != nil {
		s.t.Fatalf("%s %s: %v", name, fields, err)
	}
	complete(msg, s.now)
	s.fill(msg.ProtoReflect())
	s.index++
	result, events := s.state.Apply(s.index, msg)
	if r := result.GetRefusal(); r != nil {
		fmt.Fprintf(&s.out, "refused %s: %s\n", r.GetCode(), r.GetMessage())
		return
	}
	if r := result.GetStartOperation(); r != nil {
		fmt.Fprintf(&s.out, "operation %s repeated=%t\n", r.GetOperationId(), r.GetRepeated())
	}
	if r := result.GetTree(); r != nil {
		fmt.Fprintf(&s.out, "revision %d\n", r.GetRevision())
	}
	for _, g := range result.GetStartAllocations().GetGrants() {
		if g.GetRefusal() != "" {
			fmt.Fprintf(&s.out, "grant %s refused %s: %s\n", g.GetJobId(), g.GetRefusal(), g.GetMessage())
		}
	}
	for _, j := range result.GetFinishJobs().GetJobs() {
		if j.GetRefusal() != "" {
			fmt.Fprintf(&s.out, "job %s refused %s: %s\n", j.GetJobId(), j.GetRefusal(), j.GetMessage())
		}
	}
	for _, e := range events {
		s.tell(e)
	}
}

// fill sets the term and the epoch of a command that does not name them.
func (s *script) fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	if term := fields.ByName("term"); term != nil && !m.Has(term) {
		m.Set(term, protoreflect.ValueOfUint64(s.state.Term().GetTerm()))
	}
	if epoch := fields.ByName("epoch"); epoch != nil && !m.Has(epoch) {
		o, _ := s.state.Operation(scheduling.OperationID(m.Get(fields.ByName("operation_id")).String()))
		m.Set(epoch, protoreflect.ValueOfUint64(o.GetAssignment().GetEpoch()))
	}
}

func (s *script) tell(event Event) {
	switch e := event.(type) {
	case AllocationsStarted:
		for _, a := range e.Allocations {
			fmt.Fprintf(&s.out, "started %s\n", allocationText(a))
		}
	case AllocationsEnded:
		for _, ended := range e.Ended {
			f := ended.Finished
			fmt.Fprintf(&s.out, "ended %s: %s %s%s\n", f.GetJobId(), f.GetState(), f.GetAbortReason(), endText(f))
		}
	case DemandChanged:
		group := ""
		if e.Group != 0 {
			group = fmt.Sprintf(" Group:%d", e.Group)
		}
		fmt.Fprintf(&s.out, "DemandChanged {ID:%s Task:%s%s Pending:%d}\n", e.ID, e.Task, group, e.Pending)
	case StopsOrdered:
		for _, a := range e.Allocations {
			fmt.Fprintf(&s.out, "stop %s\n", allocationText(a))
		}
	case RecordSkipped:
		fmt.Fprintf(&s.out, "RecordSkipped of %s/%s cookie=%d: %s [%d, %d) %q\n", e.ID, e.Task, e.Cookie, e.Path, e.Record.GetBegin(), e.Record.GetEnd(), e.Record.GetHead())
	case OutputPublished:
		fmt.Fprintf(&s.out, "OutputPublished of %s: %s\n", e.ID, e.Output.GetPath())
	case ProfileSaved:
		fmt.Fprintf(&s.out, "ProfileSaved of %s/%s: %s\n", e.ID, e.Task, e.Profile.GetKey())
	default:
		fmt.Fprintf(&s.out, "%s %+v\n", strings.TrimPrefix(fmt.Sprintf("%T", e), "state."), e)
	}
}

func allocationText(a *statepb.Allocation) string {
	text := fmt.Sprintf("%s: %s/%s cookie=%d attempt=%d node=%s.%d token=%d.%d", a.GetJobId(), a.GetOperationId(), a.GetTask(),
		a.GetCookie(), a.GetAttempt(), a.GetNode(), a.GetNodeIncarnation(), a.GetGrantTerm(), a.GetGrantIndex())
	if stop := a.GetStop(); stop != nil {
		text += fmt.Sprintf(" stop=%s after %d ms%s", stop.GetReason(), stop.GetGraceMillis(), stopText(stop))
	}
	if a.GetPool() != string(scheduling.DefaultPool) {
		text += " pool=" + a.GetPool()
	}
	if r := a.GetReserve(); r != nil {
		text += " reserve=" + reserveText(r)
	}
	if a.GetReplaced() {
		text += " replaced"
	}
	if a.GangRank != nil {
		text += fmt.Sprintf(" rank=%d of incarnation %d", a.GetGangRank(), a.GetGangIncarnation())
	}
	if len(a.GetPorts()) > 0 {
		text += fmt.Sprintf(" ports=%v", a.GetPorts())
	}
	return text
}

// stopText tells what is special about an order: why a job is interrupted, until
// when it may leave, and for whom.
func stopText(stop *statepb.StopOrder) string {
	text := ""
	if stop.Interrupted() {
		text += fmt.Sprintf(" interrupted=%s until %s", stop.GetInterruption(), stop.Deadline().Format(time.TimeOnly))
		if held := stop.GetHeldUntil(); held != nil {
			text += " held until " + held.AsTime().Format(time.TimeOnly)
		}
	}
	if stop.GetPreemption() != "" {
		text += " kind=" + stop.GetPreemption()
	}
	if b := stop.GetPreemptedFor(); b != nil {
		text += fmt.Sprintf(" for=%s/%s", b.GetOperationId(), b.GetTask())
	}
	return text
}

// endText tells what is special about an end.
func endText(f *statepb.FinishedJob) string {
	text := ""
	if f.GetRerun() {
		text += " rerun"
	}
	if f.GetAcknowledged() {
		text += " acknowledged"
	}
	return text + stopText(f.GetStop())
}

// tellWaste shows a ledger.
func (s *script) tellWaste(ledger []*statepb.Waste) {
	for _, w := range ledger {
		fmt.Fprintf(&s.out, "  waste of %q by %s: jobs=%d saved=%d slots=%v cores=%v memory=%v\n", w.GetPool(), w.GetCause(), w.GetJobs(), w.GetSavedJobs(),
			w.GetUserSlotSeconds(), w.GetCpuCoreSeconds(), w.GetMemoryByteSeconds())
	}
}

func (s *script) show(kind, name string) {
	switch kind {
	case "operation":
		s.showOperation(name)
	case "allocations":
		for _, a := range s.state.Allocations() {
			fmt.Fprintln(&s.out, allocationText(a))
		}
	case "node":
		n, _ := s.state.Node(scheduling.NodeID(name))
		fmt.Fprintf(&s.out, "node %s.%d %s: %v of %v\n", n.GetId(), n.GetIncarnation(), n.GetState(), s.state.NodeUsage(scheduling.NodeID(name)), n.GetResources().Amounts())
		if n.GetTree() != string(scheduling.DefaultTree) {
			fmt.Fprintf(&s.out, "  in tree %q with tags %v\n", n.GetTree(), n.GetTags())
		}
		if at := n.GetPreemptedTime(); at != nil {
			fmt.Fprintf(&s.out, "  jobs were chosen to go at %s\n", at.AsTime().Format(time.TimeOnly))
		}
		if n.GetPortCount() > 0 {
			fmt.Fprintf(&s.out, "  %d ports from %d on, %d is next\n", n.GetPortCount(), n.GetFirstPort(), n.GetNextPort())
		}
		if d := n.GetDrain(); d != nil {
			fmt.Fprintf(&s.out, "  drained by %s at %s: %s\n", d.GetUser(), d.GetTime().AsTime().Format(time.TimeOnly), d.GetReason())
		}
	case "pools":
		s.showPools(scheduling.TreeName(cmp.Or(name, string(s.state.DefaultTree()))))
	case "work":
		s.showWork(name)
	case "profiles":
		for _, p := range s.state.Profiles() {
			fmt.Fprintf(&s.out, "profile %s: samples=%d operations=%d digests=%q %q updated %s by %s\n", p.GetKey(), p.GetSampleCount(), p.GetOperationCount(),
				p.GetUserDigest(), p.GetProxyDigest(), p.GetUpdatedTime().AsTime().Format(time.TimeOnly), p.GetLastOperation())
		}
	case "claims":
		for _, c := range s.state.Claims(scheduling.DefaultTree) {
			fmt.Fprintf(&s.out, "claim of %s/%s on %s.%d planned %s until %s\n", c.GetBeneficiary().GetOperationId(), c.GetBeneficiary().GetTask(),
				c.GetNode(), c.GetNodeIncarnation(), c.GetPlannedTime().AsTime().Format(time.TimeOnly), c.GetExpires().AsTime().Format(time.TimeOnly))
		}
		for _, r := range s.state.PreemptionRates(scheduling.DefaultTree) {
			fmt.Fprintf(&s.out, "rate of pool %d:", r.GetPoolId())
			for _, at := range r.GetTimes() {
				fmt.Fprint(&s.out, " ", time.Unix(0, at).UTC().Format(time.TimeOnly))
			}
			fmt.Fprintln(&s.out)
		}
	case "sweep":
		s.showSweep(scheduling.OperationID(name))
	case "counts":
		fmt.Fprintf(&s.out, "%+v\n", s.state.Counts())
	default:
		s.t.Fatalf("show %s: unknown", kind)
	}
}

func (s *script) showPools(name scheduling.TreeName) {
	tree, counts, _ := s.state.Pools(name)
	record, _ := s.state.Tree(name)
	if options := record.GetOptions().AsMap(); len(options) > 0 {
		fmt.Fprintf(&s.out, "tree %s:%s\n", name, pairs(options))
	}
	for i, p := range tree.Pools() {
		count := counts[p.Name]
		count.Bytes = 0
		counted := strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%+v", count), " Bytes:0}"), " Waiting:0")
		fmt.Fprintf(&s.out, "pool %s below %s: %s}%s", p.Name, p.Parent, strings.TrimSuffix(counted, "}"), pairs(record.GetPools()[i].GetOptions().AsMap()))
		if p.Ephemeral != "" {
			fmt.Fprintf(&s.out, " of %s", p.Ephemeral)
		}
		fmt.Fprintln(&s.out)
	}
	for _, v := range record.GetVolumes() {
		fmt.Fprintf(&s.out, "volume %s: cpu=%d slots=%v at %s\n", v.GetPool(), v.GetCpuHundredths(), v.GetUserSlots(),
			record.GetVolumesTime().AsTime().Format(time.TimeOnly))
	}
	s.tellWaste(record.GetWaste())
}

func (s *script) showOperation(name string) {
	o, ok := s.state.Operation(scheduling.OperationID(name))
	if strings.HasPrefix(name, "*") {
		o, ok = s.state.OperationByAlias(name)
	}
	if !ok {
		fmt.Fprintf(&s.out, "operation %s: none\n", name)
		return
	}
	fmt.Fprintf(&s.out, "operation %s: %s suspended=%t pending_reason=%q\n", o.GetId(), o.GetState(), o.GetSuspended(), o.GetPendingReason())
	for _, t := range o.GetTrees() {
		fmt.Fprintf(&s.out, "  in %s/%s admitted=%t%s\n", t.GetTree(), t.GetPool(), t.GetAdmitted(), pairs(t.GetOptions().AsMap()))
	}
	for _, e := range o.GetEvents() {
		fmt.Fprintf(&s.out, "  %s %s %s%s\n", e.GetTime().AsTime().Format(time.TimeOnly), e.GetState(), e.GetNote(), pairs(e.GetAttributes()))
	}
	for _, kind := range slices.Sorted(maps.Keys(o.GetPreemptedOthers())) {
		fmt.Fprintf(&s.out, "  others went for it by %s: %d\n", kind, o.GetPreemptedOthers()[kind])
	}
	for _, task := range o.GetTasks() {
		c := task.GetCounters()
		pending, completed, _ := s.state.Cookies(scheduling.OperationID(o.GetId()), scheduling.TaskName(task.GetName()))
		fmt.Fprintf(&s.out, "  task %s: total=%d pending=%d %v running=%d completed=%d %v failed=%d aborted=%d%s restarted=%d memory=%d cpu=%d run=%d\n",
			task.GetName(), c.GetTotal(), c.GetPending(), pending.Intervals(), c.GetRunning(), c.GetCompleted(), completed.Intervals(),
			c.GetFailed(), c.GetAborted(), pairs(c.GetAbortedByReason()), c.GetRestarted(),
			task.GetTotals().GetMaxMemory(), task.GetTotals().GetCpuMicros(), task.GetTotals().GetRunMillis())
	}
	for _, j := range o.GetFinishedJobs() {
		fmt.Fprintf(&s.out, "  job %s: %s cookie=%d attempt=%d %s %s index=%d%s\n", j.GetJobId(), j.GetTask(), j.GetCookie(), j.GetAttempt(),
			j.GetState(), j.GetAbortReason(), j.GetIndex(), endText(j))
	}
	if o.GetStop() != nil {
		fmt.Fprintf(&s.out, "  stop%s\n", stopText(o.GetStop()))
	}
	s.tellWaste(o.GetWaste())
	s.showError("  ", o.GetResult())
}

func (s *script) showError(indent string, e *statepb.Error) {
	if e == nil {
		return
	}
	fmt.Fprintf(&s.out, "%serror %d %s%s\n", indent, e.GetCode(), e.GetMessage(), pairs(e.GetAttributes()))
	for _, inner := range e.GetInner() {
		s.showError(indent+"  ", inner)
	}
}

// pairs writes a map in the order of its keys.
func pairs[V any](m map[string]V) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, " %s=%v", key, m[key])
	}
	return out.String()
}
