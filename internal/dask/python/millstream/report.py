"""Reports of the dashboard of a scheduler."""

from time import time


class get_task_stream:  # noqa: N801 (the name in distributed)
    """Collect the tasks that run in a block, as ``distributed.get_task_stream`` does, and write them into a file::

        with millstream.get_task_stream(client, filename="run.html") as ts:
            x.compute()
        ts.data  # one record for each task

    The file has the pages of the dashboard of a Millstream scheduler with these tasks. It opens without a server and
    without network. Of a Dask scheduler it is the performance report. ``async with`` works for asynchronous clients.
    """

    def __init__(self, client=None, filename=None):
        from distributed import get_client

        self.client = client if client is not None else get_client()
        self.filename = filename
        self.data = []

    async def __aenter__(self):
        self.start = time()
        await self.client.scheduler.get_task_stream(start=0, stop=0, count=None)  # starts the record of a Dask scheduler
        return self

    async def __aexit__(self, exc_type, exc_value, traceback):
        scheduler = self.client.scheduler
        self.data.extend(await scheduler.get_task_stream(start=self.start, stop=None, count=None))
        if self.filename is not None:
            text = await scheduler.performance_report(start=self.start, last_count=0, code="", mode="inline")
            with open(self.filename, "w", encoding="utf-8") as f:
                f.write(text)

    def __enter__(self):
        return self.client.sync(self.__aenter__)

    def __exit__(self, exc_type, exc_value, traceback):
        self.client.sync(self.__aexit__, exc_type, exc_value, traceback)
