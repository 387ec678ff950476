package actorpb

// Error implements error, so that an answer that refuses can be passed on as why a
// call failed.
func (x *Refused) Error() string { return x.GetCode() + ": " + x.GetReason() }
