package actorpb

// Codes of Refused. They are on the wire between versions: never change one.
const (
	// CodeOverloaded: too many requests are waiting; retry later.
	CodeOverloaded = "overloaded"
	// CodeUnavailable: not possible at the moment; retry later.
	CodeUnavailable = "unavailable"
	// CodeOutcomeUnknown: no answer came in time; the request may still be carried out.
	CodeOutcomeUnknown = "outcome_unknown"
	// CodeNameInUse: another agent has the node's name.
	CodeNameInUse = "name_in_use"
	// CodeWrongIdentity: the sender's identity does not permit this message.
	CodeWrongIdentity = "wrong_identity"
	// CodeBadRequest: the message is invalid; a retry is of no use.
	CodeBadRequest = "bad_request"
	// CodeNotRegistered: the agent has to register first.
	CodeNotRegistered = "not_registered"
	// CodeStale: a later message of the same sender has already arrived.
	CodeStale = "stale"
	// CodeTooMany: there are as many of these as there may be, until one has ended.
	CodeTooMany = "too_many"
	// CodeNotFound: the object of the message does not exist.
	CodeNotFound = "not_found"
)

// Error implements error, so that a refusal can be returned as the error of a call.
func (x *Refused) Error() string { return x.GetCode() + ": " + x.GetReason() }
