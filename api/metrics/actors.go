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
	heartbeatsGone   = counter("heartbeats_dropped_total", "Heartbeats of nodes whose place a newer one took before they were looked at.")
	schedulerUpdates = counter("scheduler_updates_total", "Updates of the fair shares.")
	schedulerTook    = counter("scheduler_update_seconds_total", "Time spent in updates of the fair shares.")
	schedulerLast    = gauge("scheduler_last_update_timestamp_seconds", "When the fair shares were found last; missing when never.")
	schedulerPlans   = counter("scheduler_plans_total", "Times the scheduler looked for jobs for nodes.")
	schedulerPlanned = counter("scheduler_plan_seconds_total", "Time spent in looking for jobs for nodes.")
	schedulerStarts  = counter("scheduler_starts_total", "Jobs that were granted.")
	schedulerRefused = counter("scheduler_starts_refused_total", "Planned starts that were not committed.")
	schedulerFlight  = gauge("scheduler_starts_in_flight", "Planned starts whose commit is not known yet.")
	schedulerLeftOut = counter("scheduler_left_out_total", "Operations and whole pools with pending jobs that got none on a node that was looked at, by why: limits, filter, or the resource that the node lacks.", "reason")
	poolFair         = gauge("pool_fair_share_ratio", "Fair share of a pool, of its dominant resource; on the leader alone.", "tree", "pool")
	poolUsage        = gauge("pool_usage_share_ratio", "Share that a pool uses, of its dominant resource; on the leader alone.", "tree", "pool")
	poolDemand       = gauge("pool_demand_share_ratio", "Share that a pool could use, of its dominant resource; on the leader alone.", "tree", "pool")
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
	gatewayFlight  = gauge("gateway_requests_in_flight", "Requests of other machines that wait for their answer here.")
	gatewayRefused = counter("gateway_refused_total", "Messages of other machines that were turned away at the door, by code.", "code")
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
	remoteSent          = counter("remote_sent_messages_total", "Messages of actors that were queued for other machines.")
	remoteSentBytes     = counter("remote_sent_bytes_total", "Size of the messages that were queued for other machines.")
	remoteReceived      = counter("remote_received_messages_total", "Messages of actors that came from other machines.")
	remoteReceivedBytes = counter("remote_received_bytes_total", "Size of the messages that came from other machines.")
	remoteConnects      = counter("remote_connects_total", "Streams to other machines that came up.")
	remoteRefusals      = counter("remote_refusals_total", "Streams of other machines that this side refused.")
	remoteDropped       = counter("remote_dropped_messages_total", "Messages that came to nothing on this side, by reason.", "reason")
	remotePeers         = gauge("remote_peers", "Connected machines, by role.", "role")
	remoteQueued        = gauge("remote_queued_messages", "Messages that wait to be sent, by role of the peer.", "role")
	remoteQueuedBytes   = gauge("remote_queued_bytes", "Size of the messages that wait to be sent, by role of the peer.", "role")
	remoteRequests      = gauge("remote_open_requests", "Requests that wait for the peer's answer, by role of the peer.", "role")
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
