package bench

import (
	"os/exec"
	"testing"
	"time"
)

const (
	// warmups are jobs before the measured ones: connections and caches are theirs.
	warmups = 3
	// singles are the operations of one job whose times are looked at.
	singles = 40
	// many is how many jobs one operation has.
	many = 200
	// rounds is how often many jobs are run.
	rounds = 3
	// kills is how many leaders are killed.
	kills = 7
)

// BenchmarkOneJob is N1: from the call that submits an operation of one /bin/true to
// the answer that it has completed. What bounds it: an operation is three commits one
// after the other, each an fsync at the leader and at a follower side by side, and a job
// three batches of its agent's journal, each an fsync more.
func BenchmarkOneJob(b *testing.B) {
	const goal = 15 * time.Millisecond
	c := startCluster(b, "default")
	for range warmups {
		c.complete(b, c.submit(b, 1), 1)
	}
	for b.Loop() {
		var took times
		before := c.stages(b)
		for range singles {
			began := time.Now()
			c.complete(b, c.submit(b, 1), 1)
			took = append(took, time.Since(began))
		}
		b.ReportMetric(millis(took.percentile(50)), "p50-ms")
		b.ReportMetric(millis(took.percentile(90)), "p90-ms")
		b.ReportMetric(millis(goal), "goal-ms")
		tell("N1: one job, submit to complete: p50 %.0f ms, p90 %.0f ms; goal p50 %.0f ms",
			millis(took.percentile(50)), millis(took.percentile(90)), millis(goal))
		tell("N1: where the time of a job goes on its node, on average: %s", c.stages(b).since(before))
	}
}

// BenchmarkManyJobs is N2: the jobs a second of an operation of 200 /bin/true, and
// beside it those of a plain loop of fork and exec. What bounds it is processors: jobs
// share fsyncs, of the log and of the agents' journals, but each takes about 9 ms of a
// processor: 3 its supervisor, 1 itself, 2.6 its agent, 2.4 three replicas. What they take
// this time is told beside the rate, and what a plain fork and exec takes; and how long jobs
// were in each stage, of which many wait for a processor together.
func BenchmarkManyJobs(b *testing.B) {
	const goal = 400
	c := startCluster(b, "default")
	c.complete(b, c.submit(b, many), many)
	for b.Loop() {
		var ours, plain times
		var spent, alone cost
		stages := c.stages(b)
		for range rounds {
			before, began := c.spent(b), time.Now()
			c.complete(b, c.submit(b, many), many)
			ours = append(ours, time.Since(began))
			after := c.spent(b)
			spent = spent.plus(after.since(before))
			began = time.Now()
			for range many {
				if err := exec.Command("/bin/true").Run(); err != nil {
					b.Fatal(err)
				}
			}
			plain = append(plain, time.Since(began))
			alone = alone.plus(c.spent(b).since(after))
		}
		rate, loop := many/ours.percentile(50).Seconds(), many/plain.percentile(50).Seconds()
		b.ReportMetric(rate, "jobs/s")
		b.ReportMetric(goal, "goal-jobs/s")
		b.ReportMetric(loop, "fork-exec/s")
		b.ReportMetric(rate/loop, "ratio-of-fork-exec")
		perJob := func(d time.Duration) float64 { return millis(d) / (many * rounds) }
		b.ReportMetric(perJob(spent.replicas), "replicas-cpu-ms/job")
		b.ReportMetric(perJob(spent.agents), "agents-cpu-ms/job")
		b.ReportMetric(perJob(spent.jobs), "jobs-cpu-ms/job")
		b.ReportMetric(perJob(alone.nodes), "fork-exec-cpu-ms")
		tell("N2: %d jobs of one operation: %.0f jobs/s, %.2f of a plain loop of fork and exec (%.0f/s); goal %d jobs/s and 0.5; a job takes %.1f ms of processors in all replicas, %.1f ms in its agent, %.1f ms in its supervisor and itself, where fork and exec alone take %.1f ms",
			many, rate, rate/loop, loop, goal, perJob(spent.replicas), perJob(spent.agents), perJob(spent.jobs), perJob(alone.nodes))
		tell("N2: where the time of a job goes on its node, on average: %s", c.stages(b).since(stages))
	}
}

// BenchmarkKilledLeader is N4: from kill -9 of the leader to the answer to the next
// submission, and to the completion of its job. What bounds it: a replica votes for
// none while it knows a leader, so an election waits until both that are left have
// missed theirs, 1.7 times the heartbeat timeout on average: 0.3 s with --timing fast,
// 1 s by default, for machines that are shared with other work.
func BenchmarkKilledLeader(b *testing.B) {
	const goal, goalJob, goalWorst = 900 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second
	for _, timing := range []string{"fast", "default"} {
		b.Run("timing="+timing, func(b *testing.B) {
			c := startCluster(b, timing)
			for b.Loop() {
				var accepted, completed times
				for range kills {
					leader := c.whole(b)
					c.complete(b, c.submit(b, 1), 1)
					began := time.Now()
					c.kill(b, leader)
					operation := c.submit(b, 1)
					accepted = append(accepted, time.Since(began))
					c.complete(b, operation, 1)
					completed = append(completed, time.Since(began))
					c.revive(b, leader)
				}
				b.ReportMetric(millis(accepted.percentile(50)), "accept-p50-ms")
				b.ReportMetric(millis(accepted.worst()), "accept-worst-ms")
				b.ReportMetric(millis(completed.percentile(50)), "complete-p50-ms")
				b.ReportMetric(millis(completed.worst()), "complete-worst-ms")
				b.ReportMetric(millis(goal), "goal-accept-ms")
				b.ReportMetric(millis(goalJob), "goal-complete-ms")
				tell("N4: leader killed %d times, --timing %s: next submission accepted p50 %.2f s, worst %.2f s, goal %.1f s; its job complete p50 %.2f s, worst %.2f s, goal %.1f s, worst %.0f s",
					kills, timing, accepted.percentile(50).Seconds(), accepted.worst().Seconds(), goal.Seconds(),
					completed.percentile(50).Seconds(), completed.worst().Seconds(), goalJob.Seconds(), goalWorst.Seconds())
			}
		})
	}
}
