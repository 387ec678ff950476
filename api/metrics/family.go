package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// family is all metrics of one name.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("weir_"+name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("weir_"+name, help, labels, nil), prometheus.CounterValue}
}

// histogram is a family that is not put together from single values.
func histogram(name, help string) family {
	return family{prometheus.NewDesc("weir_"+name, help, nil, nil), prometheus.UntypedValue}
}

// sink takes metrics while they are collected.
type sink chan<- prometheus.Metric

// put adds a metric; labels are the values of the family's, in its order.
func (s sink) put(f family, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// flag adds a metric that is 1 or 0.
func (s sink) flag(f family, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.put(f, value, labels...)
}

// part collects the metrics of one part of a process.
type part struct {
	families []family
	collect  func(sink)
}

// Describe implements prometheus.Collector.
func (p part) Describe(descs chan<- *prometheus.Desc) {
	for _, f := range p.families {
		descs <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (p part) Collect(metrics chan<- prometheus.Metric) { p.collect(metrics) }

var buildInfo = gauge("build_info", "The running version, always 1.", "version")

// registry returns a registry with the parts, and with what every process has.
func registry(version string, parts ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		part{[]family{buildInfo}, func(s sink) { s.put(buildInfo, 1, version) }})
	r.MustRegister(parts...)
	return r
}

// maxScrapes bounds the scrapes at once: more than a pair of Prometheus servers
// and a person who looks are a mistake.
const maxScrapes = 4

func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Registry: r})
}
