package conformance_test

import (
	"fmt"
	"slices"
	"time"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// updateTree updates the tree twice: as a whole, and then, after an update of other input, by what
// has changed. Both must come to the same, to the last bit.
func (w *world) updateTree() (fairshare.Report, error) {
	before := w.kept()
	report, err := w.tree.Update(w.total, w.now)
	if err != nil {
		return report, err
	}
	want, wantKept := w.results(), w.kept()
	report.Alerts = slices.Clone(report.Alerts)
	w.restore(before)
	var operations []*fairshare.Element
	inputs := map[*fairshare.Element][2]resource.Amounts{}
	for _, e := range below(w.tree.Root, nil) {
		if e.Pool != nil {
			continue
		}
		operations = append(operations, e)
		inputs[e] = [2]resource.Amounts{e.Usage, e.Demand}
		if len(operations)%2 == 0 {
			e.Demand = e.Usage
		} else {
			e.Usage = resource.Amounts{}
		}
	}
	if _, err := w.tree.Update(w.total, w.now); err != nil {
		return report, err
	}
	w.restore(before)
	for e, input := range inputs {
		e.Usage, e.Demand = input[0], input[1]
	}
	again, err := w.tree.UpdateChanged(w.total, w.now, operations)
	if err != nil {
		return report, err
	}
	got, gotKept := w.results(), w.kept()
	for id := range want {
		if got[id] != want[id] || gotKept.volumes[id] != wantKept.volumes[id] {
			return report, fmt.Errorf("element %q: an update of what changed gives %+v with %+v, not %+v with %+v", id, got[id], gotKept.volumes[id], want[id], wantKept.volumes[id])
		}
	}
	if !slices.Equal(again.Alerts, report.Alerts) {
		return report, fmt.Errorf("an update of what changed alerts %v, not %v", again.Alerts, report.Alerts)
	}
	return report, nil
}

// below appends all elements below e.
func below(e *fairshare.Element, all []*fairshare.Element) []*fairshare.Element {
	for _, c := range e.Children {
		all = below(c, append(all, c))
	}
	return all
}

// kept is what one update leaves to the next.
type kept struct {
	updated time.Time
	volumes map[string]keptVolume
}

type keptVolume struct {
	volume     resource.Volume
	last, rest float64
}

func (w *world) kept() kept {
	k := kept{updated: w.tree.Updated, volumes: map[string]keptVolume{}}
	for id, e := range w.elements {
		if p := e.Pool; p != nil {
			k.volumes[id] = keptVolume{p.Volume, p.LastShareRatio, p.Rest}
		}
	}
	return k
}

func (w *world) restore(k kept) {
	w.tree.Updated = k.updated
	for id, v := range k.volumes {
		p := w.elements[id].Pool
		p.Volume, p.LastShareRatio, p.Rest = v.volume, v.last, v.rest
	}
}

func (w *world) results() map[string]fairshare.Result {
	all := map[string]fairshare.Result{}
	for id, e := range w.elements {
		all[id] = e.Result
	}
	return all
}
