// Package load sends requests to the instances of a service, and counts how they end.
//
// A request is sent once: it is answered, or it has failed. Discovery says which instances
// there are; one that was asked to stop gets no more requests.
package load
