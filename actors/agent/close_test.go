package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/actors/remote"
)

func TestAgentCloses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		closed := make(chan error)
		go func() { closed <- w.agent.Close(context.Background()) }()
		synctest.Wait()
		w.send(plan(3, 8, granted("k", 9)))
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if stops := w.stops("j"); !slices.Equal(stops, []string{"node_offline 1s"}) || !w.released("j") {
			t.Errorf("stops %v, released %v", stops, w.released("j"))
		}
		w.want("j:aborted:node_offline")
		if w.starts("k") != 0 {
			t.Error("a closing agent starts jobs")
		}
		<-w.agent.Done()
	})
}

func TestAgentClosesWithoutACluster(t *testing.T) {
	inWorld(t, func(w *world) {
		w.send(plan(3, 7, granted("j", 9)))
		w.plane.set(func() { w.plane.silent = true })
		before := time.Now()
		if err := w.agent.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took != 5*time.Second {
			t.Errorf("took %v, want CloseTimeout", took)
		}
	})
}

func TestAgentBreaksAsAWhole(t *testing.T) {
	inWorld(t, func(w *world) {
		w.system.Root.Send(w.agent.PID(), (*remote.Inbound)(nil))
		<-w.agent.Done()
		if w.logs.count("agent failed") != 1 {
			t.Errorf("logs %v", w.logs.text)
		}
	})
}
