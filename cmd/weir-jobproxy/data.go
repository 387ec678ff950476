package main

import (
	"context"
	"errors"
	"os"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/statistics"
)

// dataStreams feed a job whose spec has a feed, and keep its output and files.
type dataStreams struct {
	spec *proxyproto.Spec
	// folder is the job's folder, which is removed when the job is released.
	folder string
	ending *progress
	// feeder and sink are nil without a feed. begun says that feeder and sink are running.
	feeder *feeder
	sink   *sink
	begun  bool
	// interrupted says that the job was asked to stop: even if it completes, unread input is
	// left over.
	interrupted bool
}

// open implements streams.
func (d *dataStreams) open() (stdin, stdout *os.File, err error) {
	if d.spec.Feed == nil {
		return nil, nil, nil
	}
	pipe, err := newInputPipe(pipeSize)
	if err != nil {
		return nil, nil, err
	}
	d.feeder = newFeeder(d.spec.Feed, d.spec.User, pipe)
	if d.sink, stdout, err = openSink(d.spec.Feed, d.spec.User, d.folder, d.ending); err != nil {
		return nil, nil, errors.Join(&streamError{outputFailed(err)}, pipe.job.Close())
	}
	if user := d.spec.User; user != nil {
		// Opening /dev/stdin or /dev/stdout needs rights to the pipe.
		complain(pipe.job.Chown(int(user.UID), int(user.GID)))
		complain(stdout.Chown(int(user.UID), int(user.GID)))
	}
	return pipe.job, stdout, nil
}

// begin implements streams.
func (d *dataStreams) begin(fail func(verdict)) {
	if d.feeder == nil {
		return
	}
	d.begun = true
	go d.feeder.run(func(fault *proxyproto.InputFault) { fail(inputFailed(fault)) })
	go d.sink.run(func(err error) { fail(outputFailed(err)) })
}

// interrupt implements streams.
func (d *dataStreams) interrupt() {
	if d.feeder != nil {
		d.interrupted = true
		d.feeder.stop()
	}
}

// finish implements streams.
func (d *dataStreams) finish(ctx context.Context, completed bool) (r remains) {
	if d.begun {
		d.feeder.finish()
		d.sink.finish()
		if fault := d.feeder.fault; completed && fault != nil {
			completed, r.failure = false, inputFailed(fault)
		}
		r.input = d.feeder.count(completed && !d.interrupted)
	} else if d.feeder != nil {
		complain(d.feeder.pipe.close())
	}
	if completed {
		if err := keepFiles(ctx, d.spec, d.ending); err != nil {
			completed, r.failure = false, outputFailed(err)
		}
	}
	if d.sink == nil {
		return r
	}
	if completed {
		var err error
		if r.output, err = d.sink.keep(ctx); err != nil {
			r.failure = outputFailed(err)
		}
	}
	d.ending.begin("close the output " + d.sink.path)
	d.sink.discard()
	return r
}

// measure implements streams.
func (d *dataStreams) measure(values map[string]int64) {
	if d.feeder == nil {
		return
	}
	read := d.feeder.bytesSoFar.Load()
	values[statistics.DataInputRows] = d.feeder.rowsSoFar.Load()
	values[statistics.DataInputBytes], values[statistics.UserPipesInput] = read, read
	if d.sink != nil {
		written := d.sink.bytes.Load()
		values[statistics.DataOutputRows] = d.sink.rows.Load()
		values[statistics.DataOutputBytes], values[statistics.UserPipesStdout] = written, written
	}
}

func inputFailed(fault *proxyproto.InputFault) verdict {
	return verdict{outcome: proxyproto.OutcomeInputFailed, err: fault.String(), fault: fault}
}

func outputFailed(err error) verdict {
	return verdict{outcome: proxyproto.OutcomeOutputFailed, err: err.Error()}
}
