package fairshare_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/scheduling/fairshare"
	"weir/scheduling/resource"
)

// cluster has round numbers: 1 cpu is a share of 0.01, 1 byte one of 0.001.
var cluster = resource.Amounts{UserSlots: 1000, CPU: resource.Cores(100), Memory: 1000}

var begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// operation returns one without usage that demands cores and bytes.
func operation(id string, cores float64, memory int64, set ...func(*fairshare.Element)) *fairshare.Element {
	e := fairshare.NewOperation(id)
	e.Demand = resource.Amounts{CPU: resource.Cores(cores), Memory: memory}
	return with(e, set)
}

func pool(id string, set ...func(*fairshare.Element)) *fairshare.Element {
	return with(fairshare.NewPool(id), set)
}

func with(e *fairshare.Element, set []func(*fairshare.Element)) *fairshare.Element {
	for _, s := range set {
		s(e)
	}
	return e
}

func holding(children ...*fairshare.Element) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Children = children }
}

func weight(w float64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Weight = w }
}

// guaranteed sets a strong guarantee of cores; the rest is inferred.
func guaranteed(cores float64) func(*fairshare.Element) {
	return func(e *fairshare.Element) {
		e.Pool.StrongGuarantee.Amounts.CPU = resource.Cores(cores)
		e.Pool.StrongGuarantee.Named[resource.CPU] = true
	}
}

func limited(cores float64) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Limits.CPU = resource.Cores(cores) }
}

func gang(e *fairshare.Element) { e.Gang = true }

func fifo(keys ...fairshare.SortKey) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Pool.Mode, e.Pool.SortBy = fairshare.FIFO, keys }
}

func integral(i fairshare.Integral) func(*fairshare.Element) {
	return func(e *fairshare.Element) { e.Pool.Integral = i }
}

// tree returns a tree of default options with these elements below the root.
func tree(children ...*fairshare.Element) *fairshare.Tree {
	t := fairshare.NewTree(fairshare.Default())
	t.Root.Children = children
	return t
}

func update(t interface{ Fatal(...any) }, tree *fairshare.Tree, total resource.Amounts, now time.Time) fairshare.Report {
	report, err := tree.Update(total, now)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// visit calls do for e and all below, each pool before its children.
func visit(e *fairshare.Element, do func(*fairshare.Element)) {
	do(e)
	for _, c := range e.Children {
		visit(c, do)
	}
}

// byID returns all elements of a tree.
func byID(tree *fairshare.Tree) map[string]*fairshare.Element {
	all := map[string]*fairshare.Element{}
	visit(tree.Root, func(e *fairshare.Element) { all[e.ID] = e })
	return all
}

// drawing says what random trees may have.
type drawing struct {
	gangs, integral, oneResource bool
}

// drawCluster draws a cluster of uneven numbers, so that nothing meets by chance.
func drawCluster(t *rapid.T) resource.Amounts {
	n := rapid.Int64Range(90_001, 200_003)
	return resource.Amounts{
		UserSlots: n.Draw(t, "slots"), CPU: resource.Hundredths(n.Draw(t, "cpu")), Memory: n.Draw(t, "memory"),
	}
}

func (d drawing) tree(t *rapid.T, total resource.Amounts) *fairshare.Tree {
	tree := fairshare.NewTree(fairshare.Default())
	tree.Options.GangStep = d.gangs && rapid.Bool().Draw(t, "gang step")
	d.fill(t, tree.Root, total, 2)
	return tree
}

// fill gives a pool children; depth is how many levels of pools there may be.
func (d drawing) fill(t *rapid.T, e *fairshare.Element, total resource.Amounts, depth int) {
	for i := range rapid.IntRange(1, 4).Draw(t, "children of "+e.ID) {
		id := fmt.Sprintf("%s.%d", e.ID, i)
		var c *fairshare.Element
		if depth > 0 && rapid.Bool().Draw(t, id+" is a pool") {
			c = fairshare.NewPool(id)
			d.pool(t, c, total)
			d.fill(t, c, total, depth-1)
		} else {
			c = fairshare.NewOperation(id)
			c.Rank = int64(i)
			d.operation(t, c, total)
		}
		c.Weight = rapid.SampledFrom([]float64{0, 0.3, 1, 1, 1, 2.5, 7}).Draw(t, id+" weight")
		if rapid.IntRange(0, 3).Draw(t, id+" limits") == 0 {
			c.Limits = d.amounts(t, id+" limit", total)
		}
		e.Children = append(e.Children, c)
	}
}

func (d drawing) pool(t *rapid.T, e *fairshare.Element, total resource.Amounts) {
	p := e.Pool
	p.Mode = fairshare.Mode(rapid.IntRange(0, 1).Draw(t, e.ID+" mode"))
	if rapid.Bool().Draw(t, e.ID+" has a guarantee") {
		p.StrongGuarantee.Amounts = d.amounts(t, e.ID+" guarantee", total).Scale(0.4)
		p.StrongGuarantee.Named[resource.CPU] = true
		p.StrongGuarantee.Named[resource.Memory] = rapid.Bool().Draw(t, e.ID+" memory is configured")
	}
	if d.integral {
		p.Integral = fairshare.Integral{
			Type:                  fairshare.GuaranteeType(rapid.IntRange(0, 2).Draw(t, e.ID+" guarantee type")),
			Flow:                  d.amounts(t, e.ID+" flow", total).Scale(0.2),
			Burst:                 d.amounts(t, e.ID+" burst", total).Scale(0.6),
			AcceptsFreeVolume:     rapid.Bool().Draw(t, e.ID+" accepts"),
			DistributesFreeVolume: rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(t, e.ID+" distributes"),
		}
	}
}

func (d drawing) operation(t *rapid.T, e *fairshare.Element, total resource.Amounts) {
	e.Usage = d.amounts(t, e.ID+" usage", total).Scale(rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, e.ID+" uses"))
	e.Demand = e.Usage.Add(d.amounts(t, e.ID+" pending", total).Scale(rapid.SampledFrom([]float64{0, 0.2, 1, 3}).Draw(t, e.ID+" demands")))
	e.Gang = d.gangs && rapid.Bool().Draw(t, e.ID+" is a gang")
}

// amounts draws up to all that there is.
func (d drawing) amounts(t *rapid.T, label string, total resource.Amounts) resource.Amounts {
	a := resource.Amounts{CPU: resource.Hundredths(rapid.Int64Range(0, int64(total.CPU)).Draw(t, label+" cpu"))}
	if d.oneResource {
		return a
	}
	a.UserSlots = rapid.Int64Range(0, total.UserSlots).Draw(t, label+" slots")
	a.Memory = rapid.Int64Range(0, total.Memory).Draw(t, label+" memory")
	return a
}

// near reports shares that differ by more than rounding.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if d := got - want; d > 1e-9 || d < -1e-9 {
		t.Errorf("%s: got %.10f, want %.10f", what, got, want)
	}
}
