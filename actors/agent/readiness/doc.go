// Package readiness finds out whether an instance, a job that serves requests, is ready for
// them, and reports that to the operation's controller.
//
// An instance reports its readiness itself, or a probe on its node does: Finding says which
// counts. The latest report is sent whenever it changes, but at most twenty times a second, and
// repeated from time to time, because replicas forget it when all of them restart. Reports are
// advice: they are in no replicated log.
package readiness
