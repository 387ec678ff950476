package fairness

// promise gives guarantees and limits to some pools, in whole jobs, and raises the guarantees
// of their ancestors to match.
func (g *generator) promise(d map[string]any) {
	left := g.total()
	strong, burst, relaxed, limits := g.is("guarantees"), g.is("burst"), g.is("relaxed"), g.is("limits")
	volumes := map[string]any{}
	for _, l := range g.leaves {
		if limits && g.percent(50) {
			l.options["resource_limits"] = map[string]any{"cpu": l.job * g.between(1, max(g.total()/l.job/2, 1))}
			if g.percent(30) {
				l.options["resource_limits_overcommit_tolerance"] = map[string]any{"cpu": l.job}
			}
		} else if limits && g.percent(20) {
			l.options["max_share_ratio"] = oneOf(g, 0.25, 0.5, 0.75)
		}
		if !g.percent(50) || left < 2*l.job {
			continue
		}
		cpu := l.job * g.between(1, max(left/l.job/2, 1))
		switch {
		case strong && (!burst && !relaxed || g.percent(50)):
			l.options["strong_guarantee_resources"] = map[string]any{"cpu": cpu}
			for _, above := range l.parents {
				addCPU(above, cpu)
			}
		case burst && (!relaxed || g.percent(50)):
			l.options["integral_guarantees"] = map[string]any{
				"guarantee_type": "burst", "resource_flow": map[string]any{"cpu": max(cpu/2, 1)}, "burst_guarantee_resources": map[string]any{"cpu": cpu},
			}
			volumes[l.name] = oneOf(g, "1m", "10m", "1h")
		case relaxed:
			l.options["integral_guarantees"] = map[string]any{"guarantee_type": "relaxed", "resource_flow": map[string]any{"cpu": cpu}}
			if g.percent(50) {
				volumes[l.name] = oneOf(g, "1m", "10m")
			}
		default:
			continue
		}
		left -= cpu
	}
	if len(volumes) > 0 {
		d["volumes"] = volumes
	}
}

// addCPU adds cores to the strong guarantee of a pool.
func addCPU(options map[string]any, cpu int) {
	has, _ := options["strong_guarantee_resources"].(map[string]any)
	if has == nil {
		has = map[string]any{"cpu": 0}
		options["strong_guarantee_resources"] = has
	}
	has["cpu"] = has["cpu"].(int) + cpu
}
