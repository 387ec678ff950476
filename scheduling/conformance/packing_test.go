package conformance_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"

	"weir/scheduling/allocation"
	"weir/scheduling/resource"
)

// packingCase compares how well allocations fit a node.
type packingCase struct {
	head
	Total      amounts `json:"total_resources"`
	Free       amounts `json:"node_free"`
	Allocation amounts `json:"allocation"`
	Left       amounts `json:"allocation_left"`
	Right      amounts `json:"allocation_right"`
	Expect     struct {
		Angle       *float64 `json:"angle_metric"`
		AngleLength *float64 `json:"angle_length_metric"`
		Relation    *string  `json:"relation"`
	} `json:"expect"`
}

var relation = regexp.MustCompile(`^(angle_metric|angle_length_metric)\((left|right)\) (<|<=|==|>=|>) (angle_metric|angle_length_metric)\((left|right)\)$`)

func replayPacking(r *result, vector json.RawMessage) error {
	var c packingCase
	if err := strict(vector, &c); err != nil {
		return err
	}
	k := checker{world: &world{testCase: &testCase{head: c.head}}, result: r, name: c.Name}
	for name, want := range map[string]*float64{"angle_metric": c.Expect.Angle, "angle_length_metric": c.Expect.AngleLength} {
		if want == nil {
			continue
		}
		got, err := c.metric(name, c.Allocation)
		if err != nil {
			return err
		}
		k.number("allocation", name, got, *want, c.Tolerance.Abs)
	}
	if c.Expect.Relation == nil {
		return nil
	}
	parts := relation.FindStringSubmatch(*c.Expect.Relation)
	if parts == nil {
		return fmt.Errorf("unknown relation %q", *c.Expect.Relation)
	}
	sides := map[string]amounts{"left": c.Left, "right": c.Right}
	left, err := c.metric(parts[1], sides[parts[2]])
	if err != nil {
		return err
	}
	right, err := c.metric(parts[4], sides[parts[5]])
	if err != nil {
		return err
	}
	k.equal("allocation", *c.Expect.Relation, fmt.Sprintf("of %v and %v", left, right), holds(left, parts[3], right, c.Tolerance.Abs), true)
	return nil
}

func holds(left float64, relation string, right, eps float64) bool {
	switch relation {
	case "<":
		return left < right
	case ">":
		return left > right
	case "<=":
		return left <= right+eps
	case ">=":
		return left >= right-eps
	default:
		return math.Abs(left-right) <= eps
	}
}

func (c *packingCase) metric(name string, of amounts) (float64, error) {
	var exact [3]resource.Amounts
	for i, a := range []amounts{of, c.Free, c.Total} {
		var err error
		if exact[i], err = a.exact(); err != nil {
			return 0, err
		}
	}
	if name == "angle_metric" {
		return allocation.Angle(exact[0], exact[1], exact[2]), nil
	}
	return allocation.AngleLength(exact[0], exact[1], exact[2]), nil
}
