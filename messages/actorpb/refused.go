package actorpb

// Codes of Refused. They are on the wire between versions: never change one.
const (
	// CodeOverloaded: too much waits already; worth another try later.
	CodeOverloaded = "overloaded"
	// CodeUnavailable: it cannot be done now; worth another try later.
	CodeUnavailable = "unavailable"
	// CodeOutcomeUnknown: no answer came in time; what was asked for may still be
	// done.
	CodeOutcomeUnknown = "outcome_unknown"
	// CodeNameInUse: another agent has the node's name.
	CodeNameInUse = "name_in_use"
	// CodeWrongIdentity: who speaks may not say that.
	CodeWrongIdentity = "wrong_identity"
	// CodeBadRequest: the message makes no sense, now or later.
	CodeBadRequest = "bad_request"
	// CodeNotRegistered: the agent has to register first.
	CodeNotRegistered = "not_registered"
	// CodeStale: a later message of the same sender came before.
	CodeStale = "stale"
	// CodeNotFound: what the message is about is not there.
	CodeNotFound = "not_found"
)

// Error implements error, so that an answer that refuses can be passed on as why a
// call failed.
func (x *Refused) Error() string { return x.GetCode() + ": " + x.GetReason() }
