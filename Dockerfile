FROM python:3.12-slim AS build
COPY requirements.lock /
RUN python -m venv /opt/threadkeep \
    && /opt/threadkeep/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --no-deps -r /requirements.lock

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin threadkeep \
    && install -d -o threadkeep -g threadkeep /data
COPY --from=build /opt/threadkeep /opt/threadkeep
WORKDIR /srv/threadkeep
COPY migrations migrations
COPY config.yaml config.yaml
COPY skills skills
COPY app app
# Nothing can be written here later, so every start would compile it again.
RUN python -m compileall -q app
# Inside a container "every address" is the container's own; what is published, and where, is decided outside. So it
# starts only with accounts, or with THREADKEEP_ALLOW_UNAUTHENTICATED=1 where it is published to this machine alone.
ENV PATH=/opt/threadkeep/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    THREADKEEP_HOST=0.0.0.0 \
    THREADKEEP_PORT=8000 \
    THREADKEEP_DATA_DIR=/data \
    THREADKEEP_CONFIG=/srv/threadkeep/config.yaml
USER threadkeep
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['THREADKEEP_PORT']}/health\", timeout=4)"]
ENTRYPOINT ["python", "-m", "app"]
CMD ["serve"]
