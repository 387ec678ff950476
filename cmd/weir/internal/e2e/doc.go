// Package e2e tests Weir as its users meet it: real replicas, agents and jobs, each
// a process, driven by plain HTTP.
//
// Tests do not rely on Weir alone for what they assert about jobs: jobs run the program of
// folder witness, which records by itself when it ran and under which lock.
//
// The programs are built once. Every process ends with the test, however the test ends.
package e2e
