package lifecycle

// PreemptionKind says why a job is preempted (F.12.3). It is stored by name.
type PreemptionKind uint8

// The kinds of preemption.
const (
	// NotPreempted is the kind of a job that was not preempted.
	NotPreempted PreemptionKind = iota
	// Preemption: another operation starves, and the job is beyond the fair share of the operation
	// to which it belongs.
	Preemption
	// AggressivePreemption: an operation starves aggressively, so more jobs may be preempted.
	AggressivePreemption
	// GracefulPreemption: the job is beyond the fair share of its operation, which has
	// preemption_mode graceful.
	GracefulPreemption
	// ResourceLimitsViolated: the operation or a pool above it uses more than its
	// resource_limits, or max_share_ratio, allow.
	ResourceLimitsViolated
	// ResourceOvercommit: the node has less than its jobs hold.
	ResourceOvercommit
)

// preemptionKinds are the names by number.
var preemptionKinds = []string{
	"none", "preemption", "aggressive_preemption", "graceful_preemption", "resource_limits_violated", "resource_overcommit",
}

// String returns the name of the kind, such as "aggressive_preemption".
func (k PreemptionKind) String() string { return nameOf(preemptionKinds, k) }

// ParsePreemptionKind returns the kind with this name.
func ParsePreemptionKind(name string) (PreemptionKind, error) {
	return numberOf[PreemptionKind](preemptionKinds, name, "kind of preemption")
}

// Paced reports whether such a preemption on a node starts preemptive_scheduling_backoff: until the
// backoff is over, no jobs are preempted there for starving operations.
func (k PreemptionKind) Paced() bool {
	return k == Preemption || k == AggressivePreemption || k == ResourceLimitsViolated
}

// AbortReason is the abort reason of a job that was preempted in this way and did not exit by
// itself.
func (k PreemptionKind) AbortReason() AbortReason {
	switch k {
	case NotPreempted:
		return NotAborted
	case ResourceOvercommit:
		return AbortNodeResourceOvercommit
	default:
		return AbortPreemption
	}
}
