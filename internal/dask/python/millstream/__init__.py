"""Python side of Millstream.

For users: stubs for Go functions in Dask graphs, and the setup that a cluster needs to place them::

    import millstream

    @millstream.go("sumsq")
    def sumsq(x: float, y: float) -> float: ...

    millstream.install(client)  # once per Dask scheduler
    client.submit(sumsq, 3.0, 4.0).result()

Modules whose names begin with an underscore, and the modules materializer, service and sidecar, are the programs of
Millstream's Python child processes.
"""

from ._library import CommsError, LibraryError, MismatchError, RankError, TruncatedError
from .clique import Clique, CliqueError, clique
from .comms import Comms, local_handle
from .handle import Handle, Request, waitall
from .install import Installed, install, install_async
from .learn import PCA, KMeans, LinearRegression
from .report import get_task_stream
from .stubs import GoFunction, go, go_name

__version__ = "0.1.0"

__all__ = ["Clique", "CliqueError", "Comms", "CommsError", "GoFunction", "Handle", "Installed", "KMeans", "LibraryError",
           "LinearRegression", "MismatchError", "PCA", "RankError", "Request", "TruncatedError", "__version__", "clique",
           "get_task_stream", "go", "go_name", "install", "install_async", "local_handle", "waitall"]
