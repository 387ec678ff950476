package metrics

import (
	"context"
	"strings"
	"time"

	"weir/actors"
	"weir/actors/gateway"
	"weir/actors/remote"
	"weir/cluster/clock"
	"weir/messages/actorpb"
)

// viewPatience bounds the wait for the scheduler, which may be busy: a scrape
// without its metrics is better than none.
const viewPatience = time.Second

// leader adds the metrics of the leader's actors and of the controllers on this replica.
func (s sink) leader(stats actors.Stats, of Actors) {
	flag(s, "leader_active", "1 while this replica runs the leader's actors, otherwise 0.", stats.Leading)
	gauge(s, "controllers", "Operations whose controller is on this replica.", stats.Controllers)
	counter(s, "heartbeats_dropped_total", "Node heartbeats replaced by a newer one before they were processed.", stats.HeartbeatsDropped)
	gauge(s, "clock_off_seconds", "How far the machine's clock is ahead of the replica's time, which it does not follow then; 0 within a second.", stats.Clock.Off.Seconds())
	flag(s, "clock_agrees", "1 if the replica's time agrees with that of a majority of the voters, otherwise 0.", stats.Clock.Verdict == clock.Agrees)
	scheduler := stats.Scheduler
	counter(s, "scheduler_updates_total", "Fair share updates.", scheduler.Updates)
	counter(s, "scheduler_update_seconds_total", "Time spent in fair share updates.", scheduler.UpdateTook)
	if !scheduler.Updated.IsZero() {
		gauge(s, "scheduler_last_update_timestamp_seconds", "Time of the last fair share update; missing if there was none.",
			float64(scheduler.Updated.UnixMilli())/1000)
	}
	counter(s, "scheduler_plans_total", "Scheduling passes over nodes.", scheduler.Plans)
	counter(s, "scheduler_plan_seconds_total", "Time spent in scheduling passes over nodes.", scheduler.PlanTook)
	counter(s, "scheduler_starts_total", "Jobs granted.", scheduler.Started)
	counter(s, "scheduler_starts_refused_total", "Planned job starts that were not committed.", scheduler.Refused)
	gauge(s, "scheduler_starts_in_flight", "Planned job starts that wait for their commit.", scheduler.InFlight)
	counters(s, "scheduler_left_out_total", "How often an operation, or a whole pool, had pending jobs but started none on a node, by reason: limits, filter, or the resource that the node lacks.",
		"reason", scheduler.LeftOut)
	if !stats.Leading {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), viewPatience)
	defer cancel()
	// If the scheduler does not answer, this scrape lacks the pools.
	if view, err := of.SchedulerView(ctx, &actorpb.SchedulerViewRequest{WithoutNodes: true}); err == nil {
		s.pools(view)
	}
}

func (s sink) pools(view *actorpb.SchedulerView) {
	for _, element := range view.GetElements() {
		if element.GetPool() {
			of := labels{"tree": element.GetTree(), "pool": element.GetId()}
			gauge(s, "pool_fair_share_ratio", "Fair share of a pool, of its dominant resource; only on the leader.", element.GetFairShare(), of)
			gauge(s, "pool_usage_share_ratio", "Usage share of a pool, of its dominant resource; only on the leader.", element.GetUsageShare(), of)
			gauge(s, "pool_demand_share_ratio", "Demand share of a pool, of its dominant resource; only on the leader.", element.GetDemandShare(), of)
		}
	}
}

// gateway adds the metrics of requests from other machines.
func (s sink) gateway(stats gateway.Stats) {
	gauge(s, "gateway_requests_in_flight", "Requests from other machines in progress.", stats.InFlight)
	counters(s, "gateway_refused_total", "Messages from other machines rejected by the gateway, by code.", "code", stats.Refused)
}

// remote adds the metrics of streams, summed by the role of the peer: one series
// for each of thousands of agents would be too many.
func (s sink) remote(stats remote.Stats) {
	counter(s, "remote_sent_messages_total", "Actor messages queued for other machines.", stats.SentMessages)
	counter(s, "remote_sent_bytes_total", "Bytes of actor messages queued for other machines.", stats.SentBytes)
	counter(s, "remote_received_messages_total", "Actor messages received from other machines.", stats.ReceivedMessages)
	counter(s, "remote_received_bytes_total", "Bytes of actor messages received from other machines.", stats.ReceivedBytes)
	counter(s, "remote_connects_total", "Streams to other machines established.", stats.Connects)
	counter(s, "remote_refusals_total", "Streams from other machines rejected here.", stats.Refusals)
	counters(s, "remote_dropped_messages_total", "Messages lost on this side, by reason.", "reason", stats.Dropped)
	type sum struct{ peers, messages, bytes, requests int }
	byRole := map[string]*sum{"replica": {}, "agent": {}}
	for _, peer := range stats.Peers {
		role, _, _ := strings.Cut(peer.Peer, "/")
		if of := byRole[role]; of != nil {
			of.peers++
			of.messages += peer.QueuedMessages
			of.bytes += peer.QueuedBytes
			of.requests += peer.OpenRequests
		}
	}
	for role, of := range byRole {
		gauge(s, "remote_peers", "Connected machines, by role.", of.peers, labels{"role": role})
		gauge(s, "remote_queued_messages", "Messages waiting to be sent, by role of the peer.", of.messages, labels{"role": role})
		gauge(s, "remote_queued_bytes", "Bytes of messages waiting to be sent, by role of the peer.", of.bytes, labels{"role": role})
		gauge(s, "remote_open_requests", "Requests waiting for the peer's response, by role of the peer.", of.requests, labels{"role": role})
	}
}
