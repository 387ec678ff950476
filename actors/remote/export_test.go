package remote

// Incarnation returns the number of this life of this process.
func (r *Remote) Incarnation() uint64 { return r.config.Incarnation }
