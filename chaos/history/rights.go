package history

// What users of a run ask for, beside Submit and Abort.
const (
	Suspend      = "suspend"
	Complete     = "complete"
	Update       = "update"
	ReadEvents   = "read events"
	AbortJob     = "abort job"
	InterruptJob = "interrupt job"
	CreatePool   = "create pool"
	GiveRights   = "give rights"
	EditGroup    = "edit group"
	Drain        = "drain"
)

// The rights that calls need. MayOperate is the role of operators, which is given on no pool.
const (
	MayRead       = "read"
	MayUse        = "use"
	MayManage     = "manage"
	MayAdminister = "administer"
	MayOperate    = "operate"
)

// Ask is one call of a user who may have no right to it. It is tried once, at one replica.
type Ask struct {
	User    string `json:"user"`
	Replica string `json:"replica"`
	What    string `json:"what"`
	// Right is the right that the call needs, and Pool the pool on which.
	Right string `json:"right"`
	Pool  string `json:"pool,omitempty"`
	// On is the operation, job, node or group that the call is about. Mutation is the id of a
	// submission.
	On       string  `json:"on,omitempty"`
	Mutation string  `json:"mutation,omitempty"`
	Called   int64   `json:"called"`
	Returned int64   `json:"returned"`
	Outcome  Outcome `json:"outcome"`
	// Denied says that the call was refused because the right is missing.
	Denied bool   `json:"denied,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Turn is one change of what a user may do.
type Turn struct {
	User   string   `json:"user"`
	Rights []string `json:"rights"`
	Pool   string   `json:"pool,omitempty"`
	// Way is how the user has the rights: ByACL, or a group. One may have the same rights in
	// several ways.
	Way string `json:"way"`
	// Give says whether the rights are given or taken away.
	Give     bool    `json:"give"`
	Called   int64   `json:"called"`
	Returned int64   `json:"returned"`
	Outcome  Outcome `json:"outcome"`
	// Final says that after this change no earlier one of the same way can still take effect.
	// Without it, one that was not answered can.
	Final bool   `json:"final,omitempty"`
	Error string `json:"error,omitempty"`
}

// ByACL is the way of rights that a pool gives to a user by name.
const ByACL = "acl"

// Deed is an event of the cluster that names a user as its cause.
type Deed struct {
	User      string `json:"user"`
	Kind      string `json:"kind"`
	Index     uint64 `json:"index"`
	Operation string `json:"operation,omitempty"`
	Pool      string `json:"pool,omitempty"`
	// On is the job or node of the event.
	On string `json:"on,omitempty"`
}
