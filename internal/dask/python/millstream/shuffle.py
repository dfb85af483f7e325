"""P2P shuffles: assigns output partitions to workers.

The scheduler has the state of shuffles and communicates with the workers; only Python can read the spec of a shuffle.
This module runs in a child of the scheduler, because a spec is pickled code of a client.
"""

import pickle

from millstream import _upload
from millstream._child import Reply


def setup(peer):
    import distributed.shuffle  # noqa: F401  first, so that it is not part of the time of the first shuffle

    _upload.setup(peer)
    peer.handle("shuffle-create", create)


def create(body, frames):
    """Create a run of a shuffle.

    body: run_id, workers (addresses that may get partitions) and existing, pickled maps of partitions to workers of
    shuffles that share their outputs with this one. frames: the pickled barrier task and its buffers.
    The reply has the workers that get partitions, and as frames the pickled map and the pickled ShuffleRunSpec with buffers.
    """
    task = pickle.loads(frames[0], buffers=frames[1:])
    try:
        spec = task.spec
    except AttributeError:
        raise TypeError(f"{task!r} is not the barrier of a P2P shuffle") from None
    taken = {}
    for data in body["existing"]:
        taken.update(pickle.loads(data))
    # A partition that a shuffle with the same outputs has placed must be on the same worker, or no worker could run
    # the output.
    workers = list(body["workers"])
    worker_for = {p: taken.get(p) or spec.pick_worker(p, workers) for p in spec.output_partitions}
    state = spec.create_new_run(worker_for=worker_for, span_id=None)
    run = state.run_spec
    object.__setattr__(run, "run_id", body["run_id"])  # frozen, and its run_id would start at 1 in every process
    buffers = []
    data = pickle.dumps(run, protocol=5, buffer_callback=buffers.append)
    return Reply(
        {"workers": sorted(state.participating_workers)},
        [pickle.dumps(worker_for, protocol=5), data, *(b.raw() for b in buffers)],
    )
