// Package simulate runs days of a cluster in seconds: nodes, pools and operations out of a
// file, on the state machine and the engine that real clusters run on.
//
// Time goes from event to event. Events become the commands that replicas would propose; the
// state machine applies them, the scheduler's tree follows its events and plans, and the plans
// are the next commands. Only the surroundings are simulated: users who submit operations, jobs
// that take time, nodes and leaders that fail. Equal files and seeds give equal results.
package simulate
