// Package load sends requests to the instances of a service, and counts what becomes of
// them.
//
// A request is sent once: it is answered, or it has failed. Which instances there are is
// learned from discovery; one that has been told to go gets no more requests.
package load
