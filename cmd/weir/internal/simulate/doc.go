// Package simulate runs days of a cluster in seconds: nodes, pools and operations out
// of a file, on the state machine and the engine that real clusters run on.
//
// Time goes from event to event. What happens is made of the commands that replicas
// would propose; the state machine carries them out, the scheduler's tree follows what
// it tells and plans, and its plans are the next commands. Only what surrounds this is
// simulated: people who start operations, jobs that take their time, nodes and leaders
// that fail. Equal files and seeds give equal results.
package simulate
