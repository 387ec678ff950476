package metrics

import (
	"context"
	"strings"
	"time"

	"weir/actors/remote"
	"weir/messages/actorpb"
)

// viewPatience bounds the wait for the scheduler, which may be busy: a scrape
// without its figures is better than none.
const viewPatience = time.Second

var (
	leaderActive     = gauge("leader_active", "1 while this replica runs the leader's actors, otherwise 0.")
	controllersNow   = gauge("controllers", "Operations whose controller is on this replica.")
	heartbeatsGone   = counter("heartbeats_dropped_total", "Node heartbeats replaced by a newer one before they were processed.")
	schedulerUpdates = counter("scheduler_updates_total", "Fair share updates.")
	schedulerTook    = counter("scheduler_update_seconds_total", "Time spent in fair share updates.")
	schedulerLast    = gauge("scheduler_last_update_timestamp_seconds", "Time of the last fair share update; missing if there was none.")
	schedulerPlans   = counter("scheduler_plans_total", "Scheduling passes over nodes.")
	schedulerPlanned = counter("scheduler_plan_seconds_total", "Time spent in scheduling passes over nodes.")
	schedulerStarts  = counter("scheduler_starts_total", "Jobs granted.")
	schedulerRefused = counter("scheduler_starts_refused_total", "Planned job starts that were not committed.")
	schedulerFlight  = gauge("scheduler_starts_in_flight", "Planned job starts that wait for their commit.")
	schedulerLeftOut = counter("scheduler_left_out_total", "Operations and whole pools with pending jobs that got none on a node, by reason: limits, filter, or the resource that the node lacks.", "reason")
	poolFair         = gauge("pool_fair_share_ratio", "Fair share of a pool, of its dominant resource; only on the leader.", "tree", "pool")
	poolUsage        = gauge("pool_usage_share_ratio", "Usage share of a pool, of its dominant resource; only on the leader.", "tree", "pool")
	poolDemand       = gauge("pool_demand_share_ratio", "Demand share of a pool, of its dominant resource; only on the leader.", "tree", "pool")
)

func leaderPart(of Actors) part {
	families := []family{
		leaderActive, controllersNow, heartbeatsGone, schedulerUpdates, schedulerTook, schedulerLast, schedulerPlans, schedulerPlanned,
		schedulerStarts, schedulerRefused, schedulerFlight, schedulerLeftOut, poolFair, poolUsage, poolDemand,
	}
	return part{families, func(s sink) {
		stats := of.Stats()
		s.flag(leaderActive, stats.Leading)
		s.put(controllersNow, float64(stats.Controllers))
		s.put(heartbeatsGone, float64(stats.HeartbeatsDropped))
		scheduler := stats.Scheduler
		s.put(schedulerUpdates, float64(scheduler.Updates))
		s.put(schedulerTook, scheduler.UpdateTook.Seconds())
		if !scheduler.Updated.IsZero() {
			s.put(schedulerLast, float64(scheduler.Updated.UnixMilli())/1000)
		}
		s.put(schedulerPlans, float64(scheduler.Plans))
		s.put(schedulerPlanned, scheduler.PlanTook.Seconds())
		s.put(schedulerStarts, float64(scheduler.Started))
		s.put(schedulerRefused, float64(scheduler.Refused))
		s.put(schedulerFlight, float64(scheduler.InFlight))
		for reason, count := range scheduler.LeftOut {
			s.put(schedulerLeftOut, float64(count), reason)
		}
		if !stats.Leading {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), viewPatience)
		defer cancel()
		// Without an answer the pools are missing from this scrape.
		if view, err := of.SchedulerView(ctx, &actorpb.SchedulerViewRequest{}); err == nil {
			s.pools(view)
		}
	}}
}

func (s sink) pools(view *actorpb.SchedulerView) {
	for _, element := range view.GetElements() {
		if element.GetPool() {
			s.put(poolFair, element.GetFairShare(), element.GetTree(), element.GetId())
			s.put(poolUsage, element.GetUsageShare(), element.GetTree(), element.GetId())
			s.put(poolDemand, element.GetDemandShare(), element.GetTree(), element.GetId())
		}
	}
}

var (
	gatewayFlight  = gauge("gateway_requests_in_flight", "Requests from other machines in progress.")
	gatewayRefused = counter("gateway_refused_total", "Messages from other machines rejected by the gateway, by code.", "code")
)

func gatewayPart(of Actors) part {
	return part{[]family{gatewayFlight, gatewayRefused}, func(s sink) {
		stats := of.Stats().Gateway
		s.put(gatewayFlight, float64(stats.InFlight))
		for code, count := range stats.Refused {
			s.put(gatewayRefused, float64(count), code)
		}
	}}
}

// remoteStats are figures of streams to other machines.
type remoteStats = remote.Stats

var (
	remoteSent          = counter("remote_sent_messages_total", "Actor messages queued for other machines.")
	remoteSentBytes     = counter("remote_sent_bytes_total", "Bytes of actor messages queued for other machines.")
	remoteReceived      = counter("remote_received_messages_total", "Actor messages received from other machines.")
	remoteReceivedBytes = counter("remote_received_bytes_total", "Bytes of actor messages received from other machines.")
	remoteConnects      = counter("remote_connects_total", "Streams to other machines established.")
	remoteRefusals      = counter("remote_refusals_total", "Streams from other machines rejected here.")
	remoteDropped       = counter("remote_dropped_messages_total", "Messages lost on this side, by reason.", "reason")
	remotePeers         = gauge("remote_peers", "Connected machines, by role.", "role")
	remoteQueued        = gauge("remote_queued_messages", "Messages waiting to be sent, by role of the peer.", "role")
	remoteQueuedBytes   = gauge("remote_queued_bytes", "Bytes of messages waiting to be sent, by role of the peer.", "role")
	remoteRequests      = gauge("remote_open_requests", "Requests waiting for the peer's response, by role of the peer.", "role")
)

// remotePart sums streams by the role of their peer: a series for each of
// thousands of agents would be too many.
func remotePart(stats func() remoteStats) part {
	families := []family{
		remoteSent, remoteSentBytes, remoteReceived, remoteReceivedBytes, remoteConnects, remoteRefusals, remoteDropped,
		remotePeers, remoteQueued, remoteQueuedBytes, remoteRequests,
	}
	return part{families, func(s sink) {
		stats := stats()
		s.put(remoteSent, float64(stats.SentMessages))
		s.put(remoteSentBytes, float64(stats.SentBytes))
		s.put(remoteReceived, float64(stats.ReceivedMessages))
		s.put(remoteReceivedBytes, float64(stats.ReceivedBytes))
		s.put(remoteConnects, float64(stats.Connects))
		s.put(remoteRefusals, float64(stats.Refusals))
		for reason, count := range stats.Dropped {
			s.put(remoteDropped, float64(count), reason)
		}
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
			s.put(remotePeers, float64(of.peers), role)
			s.put(remoteQueued, float64(of.messages), role)
			s.put(remoteQueuedBytes, float64(of.bytes), role)
			s.put(remoteRequests, float64(of.requests), role)
		}
	}}
}
