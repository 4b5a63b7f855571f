# docker build -t tonearm . && docker run --rm -p 127.0.0.1:2333:2333 -e TONEARM_PASSWORD=sesame tonearm
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements/build.txt requirements/runtime.txt requirements/cluster.txt requirements/voice.txt requirements/
RUN python -m venv /opt/tonearm && /opt/tonearm/bin/pip install --no-cache-dir -r requirements/build.txt -r requirements/runtime.txt \
    -r requirements/cluster.txt -r requirements/voice.txt
COPY pyproject.toml README.md LICENSE LICENSES.md ./
COPY src src
RUN /opt/tonearm/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/tonearm/bin/pip uninstall --yes setuptools pip

FROM python:3.13-slim
COPY --from=build /opt/tonearm /opt/tonearm
RUN useradd --uid 1000 --create-home tonearm && mkdir /state && chown 1000:1000 /state
USER 1000
WORKDIR /music
# In a container the port is reached from outside it. Files are those of /music; private networks stay closed.
ENV PATH=/opt/tonearm/bin:$PATH PYTHONDONTWRITEBYTECODE=1 TONEARM_SERVER__HOST=0.0.0.0 TONEARM_SOURCES__FILES='["/music"]'
EXPOSE 2333
# Python and one request: a command of tonearm would take ten times the processor time, each time. HTTP_PROXY is not asked.
# A password that stands in a file, and not in the environment, needs server.open_paths = ["/healthz"].
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s CMD ["python", "-c", "import os, urllib.request as ask; ask.build_opener(ask.ProxyHandler({})).open(ask.Request('http://127.0.0.1:' + os.environ.get('TONEARM_SERVER__PORT', '2333') + '/healthz', headers={'Authorization': os.environ.get('TONEARM_SERVER__PASSWORD', os.environ.get('TONEARM_PASSWORD', ''))}))"]
CMD ["tonearm", "serve"]
