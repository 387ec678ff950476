package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// sink receives metrics while they are collected. Each of its methods adds the metrics of
// one part of a process.
type sink chan<- prometheus.Metric

// labels are the labels of a metric with their values.
type labels = prometheus.Labels

// figure is a type that a metric can have. A time.Duration is exported in seconds.
type figure interface {
	~int | ~int64 | ~uint64 | ~float64
}

// gauge adds a metric that goes up and down.
func gauge[F figure](s sink, name, help string, value F, of ...labels) {
	put(s, prometheus.GaugeValue, name, help, value, of)
}

// counter adds a metric that only grows.
func counter[F figure](s sink, name, help string, value F, of ...labels) {
	put(s, prometheus.CounterValue, name, help, value, of)
}

// gauges adds a gauge for each value of a label.
func gauges[F figure](s sink, name, help, label string, values map[string]F) {
	for value, number := range values {
		gauge(s, name, help, number, labels{label: value})
	}
}

// counters adds a counter for each value of a label.
func counters[F figure](s sink, name, help, label string, values map[string]F) {
	for value, number := range values {
		counter(s, name, help, number, labels{label: value})
	}
}

// flag adds a metric that is 1 or 0.
func flag(s sink, name, help string, on bool) {
	value := 0
	if on {
		value = 1
	}
	gauge(s, name, help, value)
}

func put[F figure](s sink, kind prometheus.ValueType, name, help string, value F, of []labels) {
	number := float64(value)
	if took, ok := any(value).(time.Duration); ok {
		number = took.Seconds()
	}
	s <- prometheus.MustNewConstMetric(describe(name, help, of...), kind, number)
}

// histogram adds a histogram. count and sum are the number and the sum of all values; upTo gives,
// for each upper bound, the number of values up to it.
func histogram(s sink, name, help string, count uint64, sum float64, upTo map[float64]uint64) {
	s <- prometheus.MustNewConstHistogram(describe(name, help), count, sum, upTo)
}

func describe(name, help string, of ...labels) *prometheus.Desc {
	var all labels
	if len(of) > 0 {
		all = of[0]
	}
	return prometheus.NewDesc("weir_"+name, help, nil, all)
}

// collector collects the metrics of a process. It is an unchecked collector: Describe sends
// nothing, and Prometheus learns the metrics from Collect.
type collector func(sink)

// Describe implements prometheus.Collector.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) { c(metrics) }

// registry returns a registry with the metrics that every process has and those of the given
// collectors.
func registry(version string, collect collector, more ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collect)
	r.MustRegister(collector(func(s sink) { gauge(s, "build_info", "The running version, always 1.", 1, labels{"version": version}) }))
	r.MustRegister(more...)
	return r
}

// maxScrapes bounds concurrent scrapes: enough for a pair of Prometheus servers and a
// person.
const maxScrapes = 4

func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Registry: r})
}
